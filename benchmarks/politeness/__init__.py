"""How polite Crawlframe, Scrapy and Crawlee are to simulated servers on loopback addresses."""
