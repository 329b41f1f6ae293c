"""Spiders of a site with aliases: one whose pages are learned from, and one that uses the rules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from crawlframe import Request, Response, Spider


class Learned(Spider):
    name = "learned"
    settings = {"delay": 0, "keep": "all"}

    def start(self, url: str) -> Iterator[Request]:
        yield Request(url)

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url}
        yield from response.follow_all(response.links())


class Aliased(Learned):
    name = "aliased"
    settings = {"delay": 0, "keep": "all", "aliases": True}
