"""Memory: the memory of each process of a node over a million pages."""
