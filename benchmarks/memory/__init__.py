"""Memory: what each process of a node takes over a million pages."""
