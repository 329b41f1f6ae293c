"""Scrapy projects as they are: their spiders run in our workers, on Scrapy's own classes. Needs the
extra ``crawlframe[scrapy]``; nothing outside of this folder imports Scrapy."""
