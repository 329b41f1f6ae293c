"""Kept pages: the parts that are kept of a fetched page, the key that finds it again, its
compression, the secrets that are taken out of it, and the response made from it."""
