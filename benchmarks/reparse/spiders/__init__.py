"""The spider of the benchmark of kept pages; a package of its own, so that a node has no others."""
