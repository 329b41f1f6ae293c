"""Spiders of the tests in a browser."""
