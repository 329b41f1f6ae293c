"""A spider that saves the linked files of a page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from crawlframe import Request, Response, Spider


class SavingSpider(Spider):
    """Each file is an item."""

    name = "saving"
    settings = {"concurrency": 8, "delay": 0, "retries": 20, "robots": False}

    def start(self, url: str) -> Iterator[Request]:
        yield Request(url)

    def parse(self, response: Response) -> Iterator[Any]:
        yield from response.follow_all(response.links(), self.save, save=["application/zip"])

    def save(self, response: Response) -> Iterator[Any]:
        assert response.file is not None
        with response.file.open() as file:
            yield {"file": response.file, "begins": file.read(4).hex()}
