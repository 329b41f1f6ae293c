"""Every page of a Tree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from crawlframe import Request, Response, Spider


class TreeSpider(Spider):
    """Title and price of each page, and all links."""

    name = "tree"
    settings = {"concurrency": 256, "delay": 0}  # on the one host, over all workers

    def start(self, url: str) -> Iterator[Request]:
        yield Request(url)

    def parse(self, response: Response) -> Iterator[Any]:
        page: Any = response.tree  # all that is asked for is there
        yield {
            "url": response.url,
            "h1": page.css_first("h1").text(),
            "price": float(page.css_first(".amount").text()),
        }
        yield from response.follow_all(response.links())
