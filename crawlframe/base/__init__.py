"""Leaves that every room may use: URLs, secrets, counters, limits, logs, processes."""
