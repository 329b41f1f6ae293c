import scrapy
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, CSVFeedSpider, Rule, SitemapSpider, XMLFeedSpider

from shop.items import Offer, Product, ProductLoader


class At:
    """The site is an argument of every spider."""

    def __init__(self, site, *args, **kwargs):
        self.site = site
        self.prepare()
        super().__init__(*args, **kwargs)

    def prepare(self):
        self.start_urls = [f"{self.site}/list?page=1"]


class Css(At, scrapy.Spider):
    name = "css"

    def parse(self, response):
        for link in response.css("a.item"):
            yield response.follow(
                link, self.parse_item, cb_kwargs={"text": link.css("::text").get()}
            )
        yield from response.follow_all(css="a.next")

    def parse_item(self, response, text):
        yield {
            "text": text,
            "name": response.css("h1::text").get().strip(),
            "price": response.xpath("//span/text()").re_first(r"[\d.]+"),
            "depth": response.meta["depth"],
            "url": response.url.removeprefix(self.site),
        }


class Moved(At, scrapy.Spider):
    """Every page has three more addresses."""

    name = "moved"

    def prepare(self):
        self.start_urls = [f"{self.site}/moves"]

    def parse(self, response):
        yield {"url": response.url.removeprefix(self.site)}
        yield from response.follow_all(css="a")


class Rules(At, CrawlSpider):
    name = "rules"
    rules = (
        Rule(LinkExtractor(restrict_css="a.next")),
        Rule(
            LinkExtractor(allow=r"/item/\d+$"),
            callback="parse_item",
            follow=True,
            cb_kwargs={"k": 1},
        ),
    )

    def parse_item(self, response, k):
        yield {
            "path": response.url.removeprefix(self.site),
            "text": response.meta["link_text"],
            "k": k,
        }


class Loader(At, scrapy.Spider):
    name = "loader"

    def prepare(self):
        self.start_urls = [f"{self.site}/item/{n}" for n in range(4)]

    def parse(self, response):
        loader = ProductLoader(response=response)
        loader.add_css("name", "h1::text")
        loader.add_xpath("price", "//span/text()", re=r"[\d.]+")
        loader.add_css("colours", "li::text")
        yield loader.load_item()
        yield Offer("offer", float(response.css("span::text").re_first(r"[\d.]+")))


class Login(At, scrapy.Spider):
    name = "login"

    def prepare(self):
        self.start_urls = [f"{self.site}/login"]

    def parse(self, response):
        yield scrapy.FormRequest.from_response(
            response, formdata={"user": "ann", "password": "secret"}, callback=self.inside
        )

    def inside(self, response):
        yield {"hello": response.css("b::text").get(), "from": len(response.meta["redirect_urls"])}


class Sitemap(At, SitemapSpider):
    name = "sitemap"
    sitemap_rules = [("/item/", "parse_item")]

    def prepare(self):
        self.sitemap_urls = [f"{self.site}/sitemap.xml"]

    def parse_item(self, response):
        yield {"name": response.css("h1::text").get()}


class Xml(At, XMLFeedSpider):
    name = "xml"
    itertag = "item"

    def prepare(self):
        self.start_urls = [f"{self.site}/feed.xml"]

    def parse_node(self, response, node):
        return {"id": node.xpath("id/text()").get(), "name": node.xpath("name/text()").get()}


class Csv(At, CSVFeedSpider):
    name = "csv"
    delimiter = ";"

    def prepare(self):
        self.start_urls = [f"{self.site}/feed.csv"]

    def parse_row(self, response, row):
        return dict(row)


class Api(At, scrapy.Spider):
    name = "api"

    async def start(self):
        yield scrapy.http.JsonRequest(
            f"{self.site}/api/token", data={"key": "k"}, callback=self.token
        )

    def token(self, response):
        yield self.page(1, response.json()["token"])

    def page(self, number, token):
        return scrapy.http.JsonRequest(
            f"{self.site}/api/items",
            data={"page": number},
            headers={"X-Token": token},
            meta={"token": token},
        )

    def parse(self, response):
        found = response.json()
        yield from found["items"]
        if found["next"]:
            yield self.page(found["next"], response.meta["token"])


class Objects(At, scrapy.Spider):
    """An Item in meta, and a dataclass in cb_kwargs."""

    name = "objects"

    def prepare(self):
        self.start_urls = [f"{self.site}/item/1"]

    def parse(self, response):
        product = Product(name=response.css("h1::text").get())
        yield response.follow(
            "/item/0", self.second, meta={"product": product}, cb_kwargs={"offer": Offer("o", 1.5)}
        )

    def second(self, response, offer):
        product = response.meta["product"]
        product["price"] = offer.price
        yield product
