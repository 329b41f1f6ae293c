"""Kinds: plug-ins with one file for each kind, ours or of an installed package."""
