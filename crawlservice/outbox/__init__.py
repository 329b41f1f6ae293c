"""What leaves the service, at least once: claims with a lease, results, pauses after failures."""
