"""Base of all benchmarks: servers on loopback, meters, environments of peers, tables."""
