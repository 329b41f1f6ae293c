"""API: a crawl while tasks are submitted through the web, compared with the crawl alone."""
