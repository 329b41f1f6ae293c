"""Verbs of tasks: show, change limits, retry, reparse, export, prune."""
