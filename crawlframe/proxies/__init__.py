"""Proxies: their choice, their place in the frontier, and their credentials."""
