"""Spiders of Crawlframe: there are none."""
