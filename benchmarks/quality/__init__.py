"""How well faults of a run are found, and how often a good run is blamed."""
