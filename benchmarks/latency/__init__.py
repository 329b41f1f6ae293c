"""Latency: the share of the ideal rate that is reached when every page takes its time."""
