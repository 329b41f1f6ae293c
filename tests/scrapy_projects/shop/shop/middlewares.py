from scrapy import signals
from scrapy.exceptions import IgnoreRequest
from scrapy.http import HtmlResponse


class Stamp:
    """Adds a header, answers one page itself, refuses another, and replaces a third."""

    @classmethod
    def from_crawler(cls, crawler):
        middleware = cls()
        middleware.crawler = crawler
        crawler.signals.connect(middleware.opened, signal=signals.spider_opened)
        return middleware

    def opened(self, spider):
        self.stamp = f"stamp-{spider.name}"

    def process_request(self, request, spider):
        request.headers["X-Shop"] = self.stamp
        if request.url.endswith("/made"):
            return HtmlResponse(request.url, body=b"<b>made</b>", encoding="utf-8", request=request)
        if request.url.endswith("/refused"):
            raise IgnoreRequest("refused")
        return None

    def process_response(self, request, response, spider):
        if response.status == 410:
            return request.replace(url=response.urljoin("/item/2"), dont_filter=True)
        return response

    def process_exception(self, request, exception, spider):
        self.crawler.stats.inc_value("shop/exceptions")
        return None


class Tag:
    """Counts, drops one item, adds one, and turns an error into an item."""

    def process_spider_input(self, response):
        response.meta["input"] = True

    def process_spider_output(self, response, result):
        for thing in result:
            if isinstance(thing, dict):
                if thing.get("drop"):
                    continue
                thing["tagged"] = response.meta["input"]
            yield thing

    async def process_spider_output_async(self, response, result):
        async for thing in result:
            if isinstance(thing, dict):
                if thing.get("drop"):
                    continue
                thing["tagged"] = response.meta["input"]
            yield thing

    def process_spider_exception(self, response, exception):
        if isinstance(exception, KeyError):
            return [{"error": str(exception)}]
        return None

    async def process_start(self, start):
        async for thing in start:
            if not getattr(thing, "url", "").endswith("/unwanted"):
                yield thing
