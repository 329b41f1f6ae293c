"""Recipes: spiders that are described in a file or a form instead of written in Python."""
