"""Spiders that fetch and parse a page no more often than they must."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from crawlframe import Request, Response, Spider


class OnceSpider(Spider):
    """A spider whose tasks share their pages."""

    name = "once"
    settings = {
        "reuse": 3600, "concurrency": 8, "delay": 0, "retries": 20,
        "robots": False,
    }  # fmt: skip

    def start(self, url: str) -> Iterator[Request]:
        yield Request(url)

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url, "number": response.css("b::text").get()}
        yield from response.follow_all(response.links())


class SeldomSpider(OnceSpider):
    """Would take a week to fetch its pages."""

    name = "seldom"
    settings = {"delay": 3600, "concurrency": 1}


class AgainSpider(OnceSpider):
    """Asks whether pages have changed, and parses those only."""

    name = "again"
    settings = {"reuse": {"max_age": 0, "conditional": True, "skip_unchanged": True}}


class AlwaysSpider(AgainSpider):
    """Parses them all."""

    name = "always"
    settings = {"reuse": {"skip_unchanged": False}}

    def parse(self, response: Response) -> Iterator[Any]:
        self.stats.inc("parsed")
        yield from super().parse(response)
