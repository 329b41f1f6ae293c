"""An ordinary spider and three rude ones; a package of their own, so that a node has no others."""
