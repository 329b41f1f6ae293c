"""Verbs of nodes: list and rollout."""
