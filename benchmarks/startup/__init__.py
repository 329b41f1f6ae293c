"""Startup: how soon after its start a node fetches its first page."""
