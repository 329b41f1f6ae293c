"""Measures a sitemap of a million URLs: memory of the worker, and stalls of its event loop."""
