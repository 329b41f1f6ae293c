"""A spider of a site whose pages have moved."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from crawlframe import Request, Response, Spider


class Moved(Spider):
    name = "moved"
    settings = {"delay": 0, "retries": 0, "robots": False, "concurrency": 8}

    def start(self, url: str) -> Iterator[Request]:
        yield Request(url)

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url, "asked": response.request.url}
        for link in response.links():
            yield response.follow(link)
