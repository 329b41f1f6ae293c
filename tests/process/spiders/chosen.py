"""Pages that a browser fetches if they need it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from crawlframe import Expect, Request, Response, Spider


class Chosen(Spider):
    """The articles that the first page links to."""

    name = "chosen"
    settings = {
        "render": "auto",
        "retries": 20,
        "browser": {"settle": 0},
        "timeout": 20,
        "concurrency": 4,
        "delay": 0,
        "robots": False,
        "traps": "off",
    }
    expect = Expect(fields={"name": 1, "price": 1})

    def start(self, url: str) -> Iterator[Request]:
        yield Request(url, "parse_list", downloader="curl")

    def parse_list(self, response: Response) -> Iterator[Request]:
        yield from response.follow_all(response.links())

    def parse(self, response: Response) -> Iterator[Any]:
        self.stats.inc("parsed")
        price = response.css("b::text").get()
        if name := response.css("h1::text").get():
            yield {"url": response.url, "name": name, "price": price}
        yield from response.follow_all(css="a.more")
