"""Formats of dates and numbers in Chinese."""
