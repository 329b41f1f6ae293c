"""Peer: what the runs of Scrapy, scrapy-redis and Crawlee share: their words, parsers and rows."""
