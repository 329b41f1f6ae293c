"""Parsing kept pages again: tasks that do, and what came of them."""
