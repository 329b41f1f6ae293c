"""The spider of the benchmark of sitemaps; a package of its own, so that a node has no others."""
