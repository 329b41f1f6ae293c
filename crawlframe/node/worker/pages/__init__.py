"""Kept pages in a worker: stored, reused, and compared by their text."""
