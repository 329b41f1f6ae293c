"""The store of pages: rows and bodies of kept pages, and how long they stay."""
