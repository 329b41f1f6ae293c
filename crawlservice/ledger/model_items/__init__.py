"""Items that are rows of the user's own tables: inserted, updated, replaced, delivered."""
