"""Scaling: the standard job by several workers and several nodes."""
