"""Two requests for an item, as in Zhao and Liu: a listing page that links to a house's page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from crawlframe import Request, Response, Spider


class Houses(Spider):
    """A number of houses, with at most 24 requests in flight."""

    name = "houses"
    settings = {"concurrency": 24, "delay": 0}

    def start(self, site: str, houses: int) -> Iterator[Request]:
        for number in range(houses):
            yield Request(f"{site}listing/{number}.html")

    def parse(self, response: Response) -> Iterator[Any]:
        yield response.follow(response.tree.css_first("a.house"), self.parse_house)

    def parse_house(self, response: Response) -> Iterator[Any]:
        page: Any = response.tree  # all that is asked for is there
        yield {
            "number": int(page.css_first("h1").attributes["data-number"]),
            "price": float(page.css_first(".amount").text()),
        }
