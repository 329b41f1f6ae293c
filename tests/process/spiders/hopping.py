"""A spider of chains of redirects, whose hosts want a second between two requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from crawlframe import Request, Response, Spider


class Hopping(Spider):
    name = "hopping"
    settings = {"delay": 1.0, "retries": 5, "robots": False}

    def start(self, url: str) -> Iterator[Request]:
        yield Request(url)

    def parse(self, response: Response) -> Iterator[Request]:
        for link in response.links():
            yield response.follow(link, self.end)

    def end(self, response: Response) -> dict[str, Any]:
        passed = [*response.redirects, response.url]
        return {"asked": response.request.url, "passed": passed, "text": response.text}
