"""Saved files: the store, the spool of a node, and the type of a file."""
