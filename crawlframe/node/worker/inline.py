"""InlineFetch: fetches inside of a callback, which the frontier does not know of."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Mapping

from crawlframe.errors import RobotsUnread
from crawlframe.fetch.downloader import Downloader
from crawlframe.fetch.redirects import Check
from crawlframe.node.worker.crawl import TaskCrawl
from crawlframe.node.worker.site_files import Wait
from crawlframe.outcome import Outcome
from crawlframe.request import Request
from crawlframe.response import Response
from crawlframe.stats import RUNNING

PATIENCE = 30.0  # seconds that a robots.txt is waited for
POLL = 0.5  # seconds between two looks whether it was read


class InlineFetch:
    """Those of one task in one worker. Each host is asked by one of them at a time, with the delay
    of the spider in between; with "auto", as long as the host took to answer. Redirects are
    followed, robots.txt is obeyed, and the middlewares of the spider are around the fetch."""

    def __init__(
        self,
        downloader: Downloader,
        crawl: TaskCrawl,
        check_for: Callable[[Request, TaskCrawl], Check | None],
    ) -> None:
        self._downloader = downloader
        self._crawl = crawl
        self._check_for = check_for
        self._turns: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._next: dict[str, float] = {}  # host -> when it may be asked again

    async def fetch(self, request: Request) -> Response:
        """Returns the response, whatever its status. Raises FetchError."""
        async with self._turns[request.host]:
            await asyncio.sleep(self._next.get(request.host, 0.0) - time.monotonic())
            began = time.monotonic()
            try:
                if self._crawl.middlewares is None:
                    return await self._download(request)
                return await self._crawl.middlewares.fetch(request, self._download)
            finally:
                now, settings = time.monotonic(), self._crawl.settings
                auto = max(settings.min_delay, now - began)
                pause = auto if settings.delay == "auto" else settings.delay
                self._next[request.host] = now + pause
                self._share_cookies()

    def keep_cookies(self, request: Request, cookies: Mapping[str, str]) -> None:
        """Puts cookies into the jar of ``request``, as if its host had set them."""
        session = request.options.session
        if self._crawl.settings.cookies or session is not None:
            set_cookies = [f"{name}={value}; Path=/" for name, value in cookies.items()]
            self._crawl.cookies.absorb(request.url, set_cookies, session or "")
            self._share_cookies()

    async def _download(self, request: Request) -> Response:
        waited = 0.0
        while True:
            try:
                return await self._downloader.fetch(
                    request,
                    self._crawl.settings,
                    self._crawl.spider,
                    self._crawl.cookies,
                    self._crawl.allows,
                    check=self._check_for(request, self._crawl),
                )
            except Wait as wait:
                if waited >= PATIENCE:
                    raise RobotsUnread(request.url, "timeout", "it takes long", POLL) from None
                pause = max(POLL, min(wait.seconds, PATIENCE))
                waited += pause
                await asyncio.sleep(pause)

    def _share_cookies(self) -> None:
        """What changed in the jar goes with the outcome of the request that runs."""
        outcome = RUNNING.get(None)
        if isinstance(outcome, Outcome) and (changes := self._crawl.cookies.changes()):
            outcome.cookies = {**(outcome.cookies or {}), **changes}
