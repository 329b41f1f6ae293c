"""The spiders of this project: one site per file."""
