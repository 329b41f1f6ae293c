"""Verbs of the store: installation, audit, secrets, files, unreadable rows, the page cache."""
