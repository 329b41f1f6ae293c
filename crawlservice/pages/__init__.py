"""The store of pages: rows and bodies of kept pages, their dictionaries, and how long they stay."""
