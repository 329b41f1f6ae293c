"""A node: the channel, child processes and code paths that its processes share."""
