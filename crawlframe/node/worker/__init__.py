"""A worker: the run of requests in a forked process."""
