"""What all benchmarks share: servers on loopback, meters, environments of peers, tables."""
