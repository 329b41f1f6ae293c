"""Access to Redis: connections, partitions, key names, scripts and records."""
