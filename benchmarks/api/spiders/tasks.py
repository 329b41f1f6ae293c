"""The crawl that is measured, and the tasks that are submitted meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.standard.spiders.standard import Standard
from crawlframe import Request, Spider


class Crawl(Standard):
    """The standard job."""

    name = "crawl"


class Brief(Spider):
    """A task that has nothing to fetch: it is submitted, started and ended."""

    name = "brief"

    def start(self, number: int) -> Iterator[Request]:
        yield from ()
