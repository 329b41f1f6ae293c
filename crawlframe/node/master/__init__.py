"""The master: claims requests, hands them to workers, replaces workers and code."""
