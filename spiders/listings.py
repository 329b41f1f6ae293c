"""The houses of the demo site (``python -m examples.demo_site``): two requests make one item."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

from selectolax.lexbor import LexborHTMLParser, LexborNode

from crawlframe import Request, Response
from spiders.project import ProjectSpider


class ListingsSpider(ProjectSpider):
    """Houses for sale in a city, each with the number of times its page was seen.

    From the search page to districts, their list pages, each house's page and, for its visit
    count, a JSON page."""

    name = "listings"
    settings = {"concurrency": 64, "delay": 0}

    def start(self, city: str = "berlin", site: str = "http://127.0.0.1:8100") -> Iterator[Request]:
        query = urlencode({"city": city})
        yield Request(f"{site.rstrip('/')}/search?{query}", self.parse_search)

    def parse_search(self, response: Response) -> Iterator[Request]:
        return response.follow_all(response.tree.css(".districts a"), self.parse_list)

    def parse_list(self, response: Response) -> Iterator[Request]:
        """District pages link to the first list pages, and list pages to the others."""
        yield from response.follow_all(response.tree.css(".pager a"), self.parse_list)
        yield from response.follow_all(response.tree.css("a.listing"), self.parse_listing)

    def parse_listing(self, response: Response) -> Iterator[Request]:
        page = response.tree
        names, values = page.css(".facts dt"), page.css(".facts dd")
        facts = {name.text(): value.text() for name, value in zip(names, values, strict=True)}
        house = {
            "id": int(response.url.rpartition("/")[2]),
            "title": first(page, "main h1").text(),
            "district": first(page, ".crumbs a[href^='/district/']").text(),
            "address": first(page, "address").text(),
            "price": digits(facts["Price"]),
            "rooms": float(facts["Rooms"]),
            "area": digits(facts["Area"].removesuffix("m²")),
            "built": int(facts["Built"]),
            "agent": first(page, ".agent a").text(),
            "features": [feature.text() for feature in page.css(".features li")],
        }
        visits = first(page, ".visits").attributes["data-source"]
        yield response.follow(visits, self.parse_visits, cb_kwargs={"house": house}, priority=1)
        # Most of these were seen on other pages: each URL of a task is fetched once.
        yield from response.follow_all(page.css("a.listing, .steps a"), self.parse_listing)

    def parse_visits(self, response: Response, house: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield {**house, "visits": response.json()["visits"]}


def first(page: LexborHTMLParser, query: str) -> LexborNode:
    """Raises ValueError, which the task's ledger shows, when a page has changed its structure."""
    node = page.css_first(query)
    if node is None:
        raise ValueError(f"nothing on the page matches {query}")
    return node


def digits(text: str) -> int:
    """``"€ 412,000"`` -> 412000"""
    return int(re.sub(r"\D", "", text))
