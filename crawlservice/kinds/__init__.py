"""Kinds: things of which each kind is one file, of ours or of an installed package."""
