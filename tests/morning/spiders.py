"""Spiders: the sources of the project of this morning's team, before and after its fix."""

from __future__ import annotations

from pathlib import Path

SHOP = '''"""Products of shops that all run the same shop system."""

from crawlframe import Request, Spider


class Shop(Spider):
    """All products of one shop: name, price, and whether it is in stock."""

    name = "shop"
    settings = {"delay": 0, "concurrency": 8}

    def start(self, site: str):
        yield Request(site, self.parse_list)

    def parse_list(self, response):
        yield from response.follow_all(response.css("a"), self.parse_product)

    def parse_product(self, response):
        yield {
            "url": response.url,
            "name": response.css("h1::text").get(),
            "price": response.css(".price::text").get(),
            "stock": response.css(".stock::text").get(),
        }
'''
FIXED = SHOP.replace('".price::text"', '".price::text, .amount::text"')
FEED = '''from crawlframe import Request, Spider


class Feed(Spider):
    """A feed of news, whose server sometimes hangs."""

    name = "feed"
    settings = {"delay": 0, "timeout": 3600, "retries": 0}

    def start(self, site: str):
        yield Request(site)

    def parse(self, response):
        yield {"url": response.url}
        yield from response.follow_all(response.css("a"))
'''
REVIEWS = '''from crawlframe import Request, Spider


class Reviews(Spider):
    """Reviews of products."""

    name = "reviews"
    settings = {"delay": 0, "retries": 0}

    def start(self, site: str, count: int = 5):
        for number in range(count):
            yield Request(f"{site}{number}")

    def parse(self, response):
        yield {"url": response.url, "title": response.css("h1::text").get()}
'''


def write(directory: Path, *, fixed: bool = False) -> None:
    """Writes the package ``market`` into a directory, or the fix over it."""
    package = directory / "market"
    package.mkdir(exist_ok=True)
    (package / "shop.py").write_text(FIXED if fixed else SHOP)
    if not fixed:
        (package / "__init__.py").write_text("")
        (package / "feed.py").write_text(FEED)
        (package / "reviews.py").write_text(REVIEWS)
