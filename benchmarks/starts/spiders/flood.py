"""A start of as many requests as wanted, and pages that cost no fetch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from crawlframe import CallNext, Request, Response, Spider

HOSTS = 1000


class NoFetch:
    """Answers every request itself."""

    async def fetch(self, request: Request, call_next: CallNext) -> Response:
        return Response(request.url, 200, {}, b"", request)


class FloodSpider(Spider):
    name = "flood"
    settings = {"concurrency": 256, "delay": 0, "robots": False}
    middlewares: ClassVar[list[Any]] = [NoFetch]

    def start(self, urls: int) -> Iterator[Request]:
        for n in range(urls):
            yield Request(f"https://shop{n % HOSTS}.example/houses/for-sale/{n:012}?view=list")

    def parse(self, response: Response) -> None:
        pass


class WaitingSpider(FloodSpider):
    """Almost nothing of it is fetched."""

    name = "waiting"
    settings = {"concurrency": 1, "delay": 86_400, "robots": False}
