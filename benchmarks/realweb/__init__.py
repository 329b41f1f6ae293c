"""Compares spiders/site.py with ``wget --recursive`` on real HTML served by nginx on loopback."""
