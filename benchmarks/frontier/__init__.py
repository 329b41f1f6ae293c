"""The frontier alone: simulated workers against one Redis."""
