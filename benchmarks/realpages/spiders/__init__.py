"""Spiders of the job."""
