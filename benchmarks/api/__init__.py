"""API: a crawl while others submit through the web, beside the same crawl alone."""
