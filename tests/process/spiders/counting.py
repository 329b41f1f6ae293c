"""Counting: numbers kept on ``self``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, ClassVar

from crawlframe import Request, Response, Spider
from tests.process.spiders.flood import NoFetch


class Counting(Spider):
    """Each page has the next number, and leads to another until there are ``pages``."""

    name = "counting"
    settings = {"concurrency": 64, "delay": 0, "robots": False}
    middlewares: ClassVar[list[Any]] = [NoFetch]
    workers = 1

    def __init__(self) -> None:
        self.count = 0

    def start(self, pages: int) -> Iterator[Request]:
        for n in range(min(20, pages)):
            yield Request(f"http://h{n}.example/{n}", cb_kwargs={"step": 20, "pages": pages})

    def parse(self, response: Response, step: int = 0, pages: int = 0) -> Iterator[Any]:
        self.count += 1
        yield {"count": self.count, "pid": os.getpid()}
        n = int(response.url.rpartition("/")[2]) + step
        if n < pages:
            kwargs = {"step": step, "pages": pages}
            yield Request(f"http://h{n % 50}.example/{n}", cb_kwargs=kwargs)

    def closed(self, summary: Any) -> Iterator[Any]:
        yield {"closed": self.count, "pid": os.getpid()}
