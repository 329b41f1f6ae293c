"""Saved files: their rows, downloads, and the pruning of the store."""
