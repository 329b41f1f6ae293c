"""Kept pages: the parts that are kept of a fetched page, the key that finds it again, its
compression, and the response made from it."""
