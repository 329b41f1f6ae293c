"""Recipes that are kept in the database: their versions, and trying them on a page."""
