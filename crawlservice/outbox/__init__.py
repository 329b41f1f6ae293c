"""Outgoing messages, sent at least once: claims with a lease, results, pauses after failures."""
