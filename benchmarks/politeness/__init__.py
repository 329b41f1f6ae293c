"""Politeness of a cluster to simulated servers on loopback addresses."""
