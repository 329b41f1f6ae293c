"""The spider of the benchmark of starts; a package of its own, so that a node has no others."""
