"""Parsing kept pages again: the tasks, and their results."""
