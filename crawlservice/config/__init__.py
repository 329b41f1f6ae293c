"""Which settings are in force, and where each comes from."""
