"""Proxies in the database: lists, their checks, and their use."""
