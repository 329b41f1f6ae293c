"""A broad crawl of simulated hosts by Crawlframe, Scrapy and scrapy-redis."""
