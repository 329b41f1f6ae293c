"""The run of a callback: the collector of its items and links, and the filters of links."""
