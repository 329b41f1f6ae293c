"""Kept pages parsed again: how fast they are read, and a whole task of them."""
