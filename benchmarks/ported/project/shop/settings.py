"""As ``scrapy startproject`` makes them, with the pace and the log level of a benchmark."""

SPIDER_MODULES = ["shop.spiders"]
ROBOTSTXT_OBEY = False
DOWNLOAD_DELAY = 0
CONCURRENT_REQUESTS = 64
CONCURRENT_REQUESTS_PER_DOMAIN = 64
FEED_EXPORT_ENCODING = "utf-8"
LOG_LEVEL = "INFO"  # by default, each page and each item is a record
