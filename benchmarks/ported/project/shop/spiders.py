"""A spider in the style of Scrapy's tutorial: css selectors, and all links followed."""

import scrapy


class Standard(scrapy.Spider):
    name = "standard"

    def __init__(self, start_url, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.start_url = start_url

    async def start(self):  # start_urls are not filtered, so the first page would be there twice
        yield scrapy.Request(self.start_url)

    def parse(self, response):
        links = response.css("a::attr(href)").getall()
        yield {
            "url": response.url,
            "title": response.css("title::text").get(),
            "h1": response.css("h1::text").get(),
            "price": float(response.css(".amount::text").get()),
            "date": response.css("time::attr(datetime)").get(),
            "author": response.css(".author::text").get(),
            "links": len(links),
        }
        yield from response.follow_all(links, self.parse)
