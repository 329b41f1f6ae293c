"""Settings in force, and the source of each."""
