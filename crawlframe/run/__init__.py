"""The run of a callback and its commit: collector, filters of links, participants."""
