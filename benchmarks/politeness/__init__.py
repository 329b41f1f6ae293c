"""How polite crawlers are to simulated servers on loopback addresses: Crawlframe, Scrapy, Crawlee."""
