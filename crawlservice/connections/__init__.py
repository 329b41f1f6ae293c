"""Connections to Redis and the database: URLs, checks, clocks, time limits."""
