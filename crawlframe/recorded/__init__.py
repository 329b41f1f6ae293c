"""Pages of spiders recorded as files, and replayed without network."""
