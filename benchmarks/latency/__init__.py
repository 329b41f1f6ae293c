"""Latency: what is left of the ideal rate when every page takes its time."""
