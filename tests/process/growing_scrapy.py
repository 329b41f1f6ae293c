"""The growing spider as a Scrapy project: the versions of ``growing_spider`` in its words."""

from __future__ import annotations

from tests.process.growing_spider import PACKAGE, SPIDER, callbacks, changes, hinted, target

CONFIG = f"[settings]\ndefault = {PACKAGE}.settings\n"
SETTINGS = f"""\
SPIDER_MODULES = ["{PACKAGE}.houses"]
ITEM_PIPELINES = {{"{PACKAGE}.shape.Shape": 300}}
ROBOTSTXT_OBEY = True
DOWNLOAD_DELAY = 0
CONCURRENT_REQUESTS_PER_DOMAIN = 16
"""
HOUSES = '''"""The houses, version {number}."""

import re

import scrapy

NUMBER = {number}


class Houses(scrapy.Spider):
    name = "{spider}"

    def __init__(self, site, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.site = site

    async def start(self):
        yield scrapy.Request(self.site + "/search?city=berlin", self.parse_search)

    def parse_search(self, response):
        yield from response.follow_all(css=".districts a", callback=self.parse_list)

    def parse_list(self, response):
        yield from response.follow_all(css=".pager a", callback=self.parse_list)
        yield from response.follow_all(css="a.listing", callback=self.parse_listing)

    def parse_listing(self, response):
        names, values = response.css(".facts dt::text"), response.css(".facts dd::text")
        facts = dict(zip(names.getall(), values.getall()))
        house = {{
            "id": int(response.url.rpartition("/")[2]),
            "title": response.css("main h1::text").get(),
            "district": response.css(".crumbs a[href^='/district/']::text").get(),
            "address": response.css("address::text").get(),
            "price": digits(facts["Price"]),
            "rooms": float(facts["Rooms"]),
            "area": digits(facts["Area"].removesuffix("m²")),
            "built": int(facts["Built"]),
            "agent": response.css(".agent a::text").get(),
            "features": response.css(".features li::text").getall(),
            "found_by": NUMBER,
        }}
        visits = response.css(".visits::attr(data-source)").get()
        yield response.follow(
            visits, self.{target}, cb_kwargs={{"house": house{hint}}}, priority=1
        )
        yield from response.follow_all(css="a.listing, .steps a", callback=self.parse_listing)

    def parse_visits(self, response, house{keyword}):
        yield {{**house, "visits": response.json()["visits"], "seen_by": NUMBER}}
'''
EXTRA = """
    def {name}(self, response, house):
        yield {{**house, "visits": response.json()["visits"], "seen_by": NUMBER}}
"""
DIGITS = """

def digits(text):
    return int(re.sub(r"\\D", "", text))
"""
SHAPE = '''"""How an item looks, version {number}: an item pipeline."""


class Shape:
    async def process_item(self, item):
        item = {{**item, "shaped_by": {number}}}
        house = item
{changes}        return item
'''


def sources(number: int, *, last: bool = False) -> dict[str, str]:
    """Path -> text of the project in a version."""
    hint, keyword = hinted(number)
    houses = HOUSES.format(
        spider=SPIDER, number=number, target=target(number), hint=hint, keyword=keyword
    )
    for name in sorted(callbacks(number, last=last)):
        houses += EXTRA.format(name=name)
    indented = "".join(f"    {line}\n" for line in changes(number).splitlines())
    return {
        "scrapy.cfg": CONFIG,
        "native/__init__.py": '"""Spiders of Crawlframe: there are none."""\n',
        f"{PACKAGE}/__init__.py": "",
        f"{PACKAGE}/settings.py": SETTINGS,
        f"{PACKAGE}/houses.py": houses + DIGITS,
        f"{PACKAGE}/shape.py": SHAPE.format(number=number, changes=indented),
    }
