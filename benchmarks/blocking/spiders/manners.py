"""Spiders that crawl a Tree with good and with bad manners."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

from crawlframe import Request, Response, Spider

QUICK = 1000  # pages that the surprising spider does quickly
EVERY = 500  # for the others: pages between two that take long


class Ordinary(Spider):
    """Title and links of every page."""

    name = "ordinary"
    settings = {"concurrency": 32, "delay": 0}

    url: str

    def start(self) -> Iterator[Request]:
        yield Request(self.url)

    def parse(self, response: Response) -> Iterator[Any]:
        page: Any = response.tree  # all that is asked for is there
        yield {"h1": page.css_first("h1").text()}
        yield from response.follow_all(response.links())


class Sleeping(Ordinary):
    """Blocks in every callback, like one that queries a database or calls requests."""

    name = "sleeping"
    settings = {"concurrency": 8, "delay": 0}

    seconds: float = 1.0

    def parse(self, response: Response) -> Iterator[Any]:
        time.sleep(self.seconds)
        yield from super().parse(response)


class Computing(Ordinary):
    """Computes in every callback, in pure Python."""

    name = "computing"
    settings = {"concurrency": 8, "delay": 0}

    seconds: float = 0.3  # of CPU

    def parse(self, response: Response) -> Iterator[Any]:
        end = time.thread_time() + self.seconds
        total = 0
        while time.thread_time() < end:
            for number in range(10_000):
                total += number * number
        yield from super().parse(response)


class Surprising(Ordinary):
    """Is fast a thousand times, and then sometimes sleeps."""

    name = "surprising"
    settings = {"concurrency": 8, "delay": 0}

    seconds: float = 10.0

    def parse(self, response: Response) -> Iterator[Any]:
        number = int(re.findall(r"\d+", response.url)[-1])
        if number >= QUICK and number % EVERY == 0:
            time.sleep(self.seconds)
        yield from super().parse(response)
