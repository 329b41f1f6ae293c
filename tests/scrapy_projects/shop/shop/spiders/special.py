import scrapy
from scrapy import signals
from scrapy.exceptions import CloseSpider
from scrapy.spidermiddlewares.httperror import HttpError

from shop.items import Product
from shop.spiders.plain import At


class Pipes(At, scrapy.Spider):
    name = "pipes"
    custom_settings = {
        "ITEM_PIPELINES": {"shop.pipelines.Cheap": 200, "shop.pipelines.Currency": 100}
    }

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.on_scraped, signal=signals.item_scraped)
        crawler.signals.connect(spider.on_dropped, signal=signals.item_dropped)
        spider.currency = crawler.settings["SHOP_CURRENCY"]
        return spider

    def on_scraped(self, item, response, spider):
        self.crawler.stats.inc_value("my/scraped")

    def on_dropped(self, item, response, exception, spider):
        self.crawler.stats.inc_value("my/dropped")

    def prepare(self):
        self.start_urls = [f"{self.site}/item/{n}" for n in range(8)]

    def parse(self, response):
        price = response.css("span::text").get()
        self.logger.info("%s costs %s", response.url, price)
        self.crawler.stats.max_value("my/longest", len(price))
        assert self.settings.getint("RETRY_TIMES") == 1
        yield Product(name=response.css("h1::text").get(), price=price)

    def closed(self, reason):
        assert self.currency == "EUR"
        self.reason = reason


class AsyncPipes(Pipes):
    name = "async_pipes"
    custom_settings = {
        "ITEM_PIPELINES": {"shop.pipelines.Currency": 100, "shop.pipelines.Slow": 200}
    }

    async def parse(self, response):
        for thing in super().parse(response):
            yield thing


class Arguments(scrapy.Spider):
    name = "arguments"

    def __init__(self, site, count="2", flag=None, **kwargs):
        super().__init__(**kwargs)
        self.start_urls = [f"{site}/item/{n}" for n in range(int(count))]
        self.flag = flag

    def parse(self, response):
        yield {
            "name": response.css("h1::text").get(),
            "flag": self.flag,
            "colour": getattr(self, "colour", "none"),
        }


class Errors(At, scrapy.Spider):
    name = "errors"
    handle_httpstatus_list = [410]

    def prepare(self):
        pass

    async def start(self):
        for path in ("gone", "broken", "missing", "item/1"):
            yield scrapy.Request(f"{self.site}/{path}", errback=self.failed)
        yield scrapy.Request(
            f"{self.site}/missing?2", meta={"handle_httpstatus_list": [404]}, errback=self.failed
        )
        yield scrapy.Request(f"{self.site}/missing?3", meta={"handle_httpstatus_all": True})
        yield scrapy.Request("http://127.0.0.1:1/", errback=self.failed)
        yield scrapy.Request(
            f"{self.site}/moved", errback=self.failed, meta={"dont_redirect": True}
        )
        yield scrapy.Request(
            f"{self.site}/moved?2", meta={"dont_redirect": True, "handle_httpstatus_list": [302]}
        )
        yield scrapy.Request(f"{self.site}/refresh")

    def parse(self, response):
        yield {"path": response.url.removeprefix(self.site), "status": response.status}

    def failed(self, failure):
        http = bool(failure.check(HttpError))
        url = failure.request.url.removeprefix(self.site)
        yield {"failed": url, "http": http, "status": failure.value.response.status if http else 0}
        if http and failure.value.response.status == 404:
            yield scrapy.Request(f"{self.site}/item/5", dont_filter=True)


class Middlewares(At, scrapy.Spider):
    name = "middlewares"
    custom_settings = {
        "DOWNLOADER_MIDDLEWARES": {"shop.middlewares.Stamp": 700},
        "SPIDER_MIDDLEWARES": {"shop.middlewares.Tag": 500},
    }

    def prepare(self):
        paths = ("echo", "made", "refused", "gone", "unwanted", "item/7")
        self.start_urls = [f"{self.site}/{path}" for path in paths]

    async def start(self):
        for url in self.start_urls:
            yield scrapy.Request(url, errback=self.failed)

    def parse(self, response):
        if response.url.endswith("/echo"):
            yield {"seen": response.json()["h"]}
        elif response.url.endswith("/item/7"):
            yield {"before": True}
            raise KeyError("seven")
        else:
            yield {"page": response.css("b::text, h1::text").get()}
            yield {"drop": True}

    def failed(self, failure):
        yield {"failed": repr(failure.value)}


class Closes(At, scrapy.Spider):
    name = "closes"

    def prepare(self):
        self.start_urls = [f"{self.site}/item/1"]

    def parse(self, response):
        yield {"page": response.url.removeprefix(self.site)}
        raise CloseSpider("enough")


class Inline(At, scrapy.Spider):
    name = "inline"

    def prepare(self):
        self.start_urls = [f"{self.site}/list?page=1"]

    async def parse(self, response):
        for link in response.css("a.item"):
            page = await self.crawler.engine.download_async(response.follow(link))
            yield {"name": page.css("h1::text").get(), "status": page.status}
        missing = await self.crawler.engine.download_async(scrapy.Request(f"{self.site}/missing"))
        yield {"missing": missing.status}


class Cookies(At, scrapy.Spider):
    """Cookies of a request are kept for the next ones of its jar."""

    name = "cookies"

    def prepare(self):
        pass

    async def start(self):
        for jar in ("a", "b"):
            yield scrapy.Request(
                f"{self.site}/echo/{jar}", cookies={"who": jar}, meta={"cookiejar": jar}
            )
        yield scrapy.Request(
            f"{self.site}/echo/x", cookies={"who": "x"}, meta={"dont_merge_cookies": True}
        )

    def parse(self, response):
        jar = response.meta.get("cookiejar")
        yield {"jar": jar, "cookies": response.json()["c"]}
        if not response.url.endswith("/2"):
            meta = {"cookiejar": jar} if jar else {}
            yield response.follow(f"{response.url}/2", meta=meta)


class Members(At, scrapy.Spider):
    name = "members"
    http_user = "ann"
    http_pass = "secret"
    http_auth_domain = "127.0.0.1"

    def prepare(self):
        self.start_urls = [f"{self.site}/echo"]

    def parse(self, response):
        yield {"authorization": response.json()["h"].get("authorization")}


class Files(At, scrapy.Spider):
    name = "files"
    custom_settings = {"ITEM_PIPELINES": {"scrapy.pipelines.files.FilesPipeline": 1}}

    def prepare(self):
        self.start_urls = [f"{self.site}/list?page=1"]

    def parse(self, response):
        paths = ("feed.xml", "moved", "missing", "feed.csv")
        yield {"file_urls": [response.urljoin(path) for path in paths]}
