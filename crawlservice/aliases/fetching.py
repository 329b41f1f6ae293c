"""Fetching: pages that are compared to verify a rule, as a node would fetch them: robots.txt is
obeyed, and so are the limits of the host, which all nodes and commands share."""

from __future__ import annotations

import asyncio
import os
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import NamedTuple

from crawlframe.aliases.content import content_of
from crawlframe.aliases.verify import AliasPage
from crawlframe.base.urls import host_of
from crawlframe.conf import Settings
from crawlframe.errors import CrawlframeError
from crawlframe.fetch.downloader import Downloader
from crawlframe.fetch.journey.context import FetchContext
from crawlframe.frontier.permits import Permits
from crawlframe.identity.identity import Identity
from crawlframe.request.request import Request
from crawlframe.spider.settings import SpiderSettings
from crawlservice.identity.page_robots import PageRobots
from crawlservice.models import ORDERED, Host

DELAY = 1.0  # seconds between two fetches of a host, if neither it nor an operator asks for more
LONGEST_WAIT = 600.0  # seconds that a fetch waits for its host
ASK_AGAIN = 1.0  # seconds, at most: a slot of the host is kept for three
MAX_SECONDS = 60.0  # seconds after which a permit lapses, if the command is killed


class Ordered(NamedTuple):
    paused: bool = False
    delay: float = 0.0  # seconds


class HostBusy(CrawlframeError):
    """The host rests, or crawls leave no room."""


class PoliteFetch:
    """Fetches for ``verify``, in one event loop, each with a permit of the frontier. ``delay``:
    seconds between two fetches of a host, at least. ``ordered``: what is ordered for hosts, as
    ``ordered_for`` returns it."""

    def __init__(
        self,
        settings: Settings,
        permits: Permits,
        identity: Identity | None = None,
        delay: float = DELAY,
    ) -> None:
        self.ordered: dict[str, Ordered] = {}
        self._settings, self._permits, self._delay = settings, permits, delay
        self._downloader = Downloader(settings, identity)
        self._robots: defaultdict[str, PageRobots] = defaultdict(
            lambda: PageRobots(settings, self._downloader.fetch)
        )
        self._limits = SpiderSettings(cookies=False)
        self._next: dict[str, float] = {}  # host -> time.monotonic()

    async def fetch(self, url: str) -> AliasPage:
        """One at a time of a host."""
        host = host_of(url)
        if self.ordered.get(host, Ordered()).paused:
            return AliasPage(problem=f"{host} is paused")
        await asyncio.sleep(max(0.0, self._next.get(host, 0.0) - time.monotonic()))
        try:
            async with self._permit(host):
                response = await self._downloader.fetch(
                    Request(url), self._limits, FetchContext(check=self._robots[host])
                )
        except CrawlframeError as error:  # among these robots.txt
            return AliasPage(problem=str(error))
        finally:
            self._next[host] = time.monotonic() + self._pause(host)
        return AliasPage(response.url, response.status, content_of(response))

    def _pause(self, host: str) -> float:
        """Seconds until the next fetch."""
        asked = min(self._robots[host].rules.crawl_delay, self._settings.max_crawl_delay)
        return max(self._delay, self.ordered.get(host, Ordered()).delay, asked)

    @asynccontextmanager
    async def _permit(self, host: str) -> AsyncIterator[None]:
        """Raises HostBusy."""
        token, until = os.urandom(9), time.monotonic() + LONGEST_WAIT
        delay, concurrency = round(1000 * self._pause(host)), self._limits.concurrency
        lasts = round(1000 * (self._limits.timeout + MAX_SECONDS))
        while True:
            left = max(0.0, until - time.monotonic())
            permit = self._permits.ask_apart(
                host, token, lasts, round(1000 * left), delay, concurrency
            )
            if permit.given:
                break
            if permit.wait > 1000 * left:
                raise HostBusy(
                    f"{host} may not be asked for another {permit.wait / 1000:.0f} s: it rests, or "
                    "running tasks leave no room"
                )
            await asyncio.sleep(min(permit.wait / 1000, ASK_AGAIN))
        try:
            await asyncio.sleep(permit.wait / 1000)
            yield
        finally:
            self._permits.end_apart(host, token)

    async def close(self) -> None:
        await self._downloader.close()


def ordered_for(hosts: Iterable[str]) -> dict[str, Ordered]:
    """What operators have ordered for these hosts."""
    rows = Host.objects.filter(ORDERED, name__in=[*hosts])
    return {row.name: Ordered(row.paused, row.delay or 0.0) for row in rows}
