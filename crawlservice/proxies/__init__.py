"""Proxies in the database: lists, their checks, and what is known of each."""
