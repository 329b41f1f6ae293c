"""Peer: the common parts of the runs of Scrapy, scrapy-redis and Crawlee: words, parsers, rows."""
