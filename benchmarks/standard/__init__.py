"""The standard job: Crawlframe, Scrapy, scrapy-redis, Crawlee and the bare limit on one site."""
