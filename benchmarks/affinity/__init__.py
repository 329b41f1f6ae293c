"""Node affinity: how even the load is, and what it saves."""
