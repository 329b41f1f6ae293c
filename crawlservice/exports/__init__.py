"""Continuous exports: definitions, batches and cursors."""
