"""Spiders of the process tests (CRAWLFRAME_SPIDERS=tests.process.spiders)."""
