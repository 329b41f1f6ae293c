"""How fast a start of many requests is recorded, and what memory that takes."""
