"""Watches: pages that are visited again when they are expected to have changed."""
