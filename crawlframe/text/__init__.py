"""The article of a page: its text, Markdown and metadata."""
