"""Blocking: what callbacks that hold the processor or sleep do to the other crawls of a node."""
