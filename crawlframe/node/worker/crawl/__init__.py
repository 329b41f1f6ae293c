"""A task in a worker: its spider, callbacks and stages."""
