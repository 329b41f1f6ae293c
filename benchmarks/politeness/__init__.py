"""How polite a cluster is to simulated servers on loopback addresses."""
