"""Chores: what the steward does by the clock, each registered by its feature."""
