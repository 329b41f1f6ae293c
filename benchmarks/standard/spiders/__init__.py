"""The spiders that the standard job runs; a package of their own, so that a node has no others."""
