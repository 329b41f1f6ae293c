"""The commit thread of a worker, and the participants that it calls."""
