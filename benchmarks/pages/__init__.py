"""The CPU time of a page as the web has them, of Crawlframe, Scrapy and a bare loop."""
