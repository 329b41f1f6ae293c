"""The spiders of the simulation."""
