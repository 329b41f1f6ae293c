"""Fetching: pages that are compared to verify a rule, one after the other, as a node would fetch
them: robots.txt is obeyed, and the delay of the host."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import NamedTuple

from crawlframe.aliases.content import content_of
from crawlframe.aliases.verify import Fetched
from crawlframe.conf import Settings
from crawlframe.errors import CrawlframeError
from crawlframe.fetch.downloader import Downloader
from crawlframe.identity.identity import Identity
from crawlframe.links import host_of
from crawlframe.request import Request
from crawlframe.spider_settings import SpiderSettings
from crawlservice.identity.page_robots import PageRobots
from crawlservice.models import ORDERED, Host

DELAY = 1.0  # seconds between two fetches of a host, if neither it nor an operator asks for more


class Ordered(NamedTuple):
    paused: bool = False
    delay: float = 0.0  # seconds


class PoliteFetch:
    """Fetches for ``verify``, in one event loop. ``delay``: seconds between two fetches of a host,
    at least. ``ordered``: what is ordered for hosts, as ``ordered_for`` returns it."""

    def __init__(
        self, settings: Settings, identity: Identity | None = None, delay: float = DELAY
    ) -> None:
        self.ordered: dict[str, Ordered] = {}
        self._settings, self._delay = settings, delay
        self._downloader = Downloader(settings, identity)
        self._robots = PageRobots(settings, self._downloader.fetch)
        self._next: dict[str, float] = {}  # host -> time.monotonic()

    async def fetch(self, url: str) -> Fetched:
        host = host_of(url)
        ordered = self.ordered.get(host, Ordered())
        if ordered.paused:
            return Fetched(problem=f"{host} is paused")
        await asyncio.sleep(max(0.0, self._next.get(host, 0.0) - time.monotonic()))
        try:
            response = await self._downloader.fetch(
                Request(url), SpiderSettings(cookies=False), check=self._robots
            )
        except CrawlframeError as error:  # among these robots.txt
            return Fetched(problem=str(error))
        finally:
            asked = min(self._robots.rules.crawl_delay, self._settings.max_crawl_delay)
            self._next[host] = time.monotonic() + max(self._delay, ordered.delay, asked)
        return Fetched(response.url, response.status, content_of(response))

    async def close(self) -> None:
        await self._downloader.close()


def ordered_for(hosts: Iterable[str]) -> dict[str, Ordered]:
    """What operators have ordered for these hosts."""
    rows = Host.objects.filter(ORDERED, name__in=[*hosts])
    return {row.name: Ordered(row.paused, row.delay or 0.0) for row in rows}
