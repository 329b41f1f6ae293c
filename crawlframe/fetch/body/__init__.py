"""Bodies: decoded, held in memory within bounds, and saved as files."""
