"""Flood: a start that yields much, and pages that cost nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, ClassVar

from crawlframe import CallNext, Request, Response, Spider

CODE = "first"


class NoFetch:
    """Answers every request itself."""

    async def fetch(self, request: Request, call_next: CallNext) -> Response:
        return Response(request.url, 200, {}, b"", request)


class Flood(Spider):
    """``pause``: milliseconds per hundred requests of start."""

    name = "flood"
    settings = {"concurrency": 64, "delay": 0, "robots": False}
    middlewares: ClassVar[list[Any]] = [NoFetch]

    def start(self, pages: int, pause: int = 0) -> Iterator[Any]:
        yield {"n": -1}
        for n in range(pages):
            yield Request(f"http://h{n % 3}.example/{n}")
            if n % 100 == 99:
                time.sleep(pause / 1000)

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"n": int(response.url.rpartition("/")[2])}


class SlowFlood(Flood):
    name = "slow_flood"
    settings = {"concurrency": 1, "delay": 0.02, "robots": False}
