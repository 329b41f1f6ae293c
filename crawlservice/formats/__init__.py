"""How times are written, the same in every language."""
