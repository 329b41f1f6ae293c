"""Rendered pages: the client in a worker, and the host of the browser."""
