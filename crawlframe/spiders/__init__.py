"""Spiders for common kinds of sites: rules for links, sitemaps, feeds and JSON APIs."""
