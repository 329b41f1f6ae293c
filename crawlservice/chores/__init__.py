"""Chores: periodic work of the steward, each registered by its feature."""
