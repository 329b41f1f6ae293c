"""Which links a worker should remember."""
