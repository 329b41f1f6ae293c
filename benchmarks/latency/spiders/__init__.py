"""The spider of the paper's setting; a package of its own, so that a node has no others."""
