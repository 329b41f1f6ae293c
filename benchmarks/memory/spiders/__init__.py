"""The spider of the memory benchmark; a package of its own, so that a node has no others."""
