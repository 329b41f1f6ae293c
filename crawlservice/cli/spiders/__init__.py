"""Verbs of spiders: record."""
