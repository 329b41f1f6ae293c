"""The pages of a sitemap, which cost no fetch, in a worker whose event loop is watched."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from crawlframe import CallNext, Request, Response, SitemapSpider, TaskInfo

PAGES = "/p/"
LONG = 86_400.0  # seconds
LOOK = 0.001  # seconds between two looks at the clock


class NoPages:
    """Returns pages itself; sitemaps are fetched."""

    async def fetch(self, request: Request, call_next: CallNext) -> Response:
        if PAGES in request.url:
            return Response(request.url, 200, {}, b"", request)
        return await call_next(request)


class MillionSpider(SitemapSpider):
    """``stalls`` is a file. A line is added each time that the event loop was held up for longer
    than before: for how long, and how much of that it computed itself, in milliseconds. The rest
    are other threads and other processes of the machine."""

    name = "million"
    settings = {"concurrency": 64, "delay": 0, "robots": False}
    middlewares: ClassVar[list[Any]] = [NoPages]

    def start(self, url: str, stalls: str) -> Iterator[Request]:  # type: ignore[override]
        yield self.sitemap_request(url)

    async def opened(self, task: TaskInfo) -> None:
        self._watch = asyncio.create_task(_watch(Path(task.arguments["stalls"])))

    def parse(self, response: Response) -> None:
        pass


class WaitingSpider(MillionSpider):
    """Its pages wait, so that nothing but the sitemaps is fetched."""

    name = "waiting"

    def follow(self, request: Request, response: Response | None) -> Request:
        if PAGES in request.url:
            request.delay = LONG
        return request


async def _watch(file: Path) -> None:
    longest = most = 0.0
    then, used = time.monotonic(), time.thread_time()
    with file.open("a") as lines:
        while True:
            await asyncio.sleep(LOOK)
            now, total = time.monotonic(), time.thread_time()
            if now - then > longest or total - used > most:
                longest, most = max(longest, now - then), max(most, total - used)
                lines.write(f"{1000 * (now - then):.1f} {1000 * (total - used):.1f}\n")
                lines.flush()
            then, used = now, total
