"""A Redis in this process: the commands and scripts of the frontier on an injected clock."""
