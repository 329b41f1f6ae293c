"""The spider that the benchmark runs; a package of its own, so that a node has no others."""
