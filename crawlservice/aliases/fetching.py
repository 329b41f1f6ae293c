"""Fetching: pages that are compared to verify a rule, as a node would fetch them: robots.txt is
obeyed, and so are the limits of the host, which all nodes and commands share."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from django.db.models import QuerySet

from crawlframe.aliases.learn import Sample
from crawlframe.aliases.rule import MAX_URL, origin_of
from crawlframe.aliases.verify import AliasPage, content_of
from crawlframe.base.program import command
from crawlframe.base.urls import host_of
from crawlframe.conf import Settings
from crawlframe.errors import ArgumentError, BadRequest, CrawlframeError
from crawlframe.fetch.downloader import Downloader
from crawlframe.fetch.journey.context import FetchContext, SendTime
from crawlframe.fetch.journey.trail import Trail
from crawlframe.frontier.client.records import NEVER_SENT
from crawlframe.frontier.permits import Permits
from crawlframe.identity.identity import Identity
from crawlframe.pages.stored import LEFT_OUT
from crawlframe.request.record import read_head
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlframe.robots.state import MAX_ORIGIN
from crawlframe.spider.settings import SpiderSettings
from crawlservice.identity.page_robots import PageRobots
from crawlservice.models import ORDERED, Host, KeptPage, Task
from crawlservice.pages.bodies import batches, read_each

log = logging.getLogger(__name__)
MAX_PAGES = 50_000  # pages that are read, the latest ones
AT_A_TIME = 50  # bodies
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
    seconds between two fetches of a host, at least. ``ordered``: the orders for hosts, as
    ``ordered_for`` returns them."""

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
            lambda: PageRobots(settings, self._fetch)
        )
        self._limits = SpiderSettings(cookies=False)
        self._next: dict[str, float] = {}  # host -> time.monotonic()

    async def fetch(self, url: str) -> AliasPage:
        """Fetches a page, one at a time of a host."""
        host = host_of(url)
        if self.ordered.get(host, Ordered()).paused:
            return AliasPage(problem=f"{host} is paused")
        await asyncio.sleep(max(0.0, self._next.get(host, 0.0) - time.monotonic()))
        try:
            trail = Trail(Request(url))
            response = await trail.follow(partial(self._check_and_fetch, trail))
        except CrawlframeError as error:  # among these robots.txt
            return AliasPage(problem=str(error))
        finally:
            self._next[host] = time.monotonic() + self._pause(host)
        return AliasPage(response.url, response.status, content_of(response))

    async def _check_and_fetch(self, trail: Trail, request: Request) -> Response:
        await self._robots[request.host](request.url)
        return await self._fetch(request, self._limits, trail)

    async def _fetch(
        self, request: Request, limits: SpiderSettings, trail: Trail | None = None
    ) -> Response:
        """One transfer. Raises HostBusy, and Redirected for a redirect of the trail."""
        async with self._permit(request.host) as send_time:
            context = FetchContext(trail=trail, send_time=send_time)
            return await self._downloader.fetch(request, limits, context)

    def _pause(self, host: str) -> float:
        """Seconds until the next fetch."""
        asked = min(self._robots[host].rules.crawl_delay, self._settings.max_crawl_delay)
        return max(self._delay, self.ordered.get(host, Ordered()).delay, asked)

    @asynccontextmanager
    async def _permit(self, host: str) -> AsyncIterator[SendTime]:
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
        due = time.monotonic() + permit.wait / 1000
        send_time = SendTime(due, partial(self._permits.note_sent, host, token))
        try:
            await asyncio.sleep(permit.wait / 1000)
            yield send_time
        finally:
            self._permits.end_apart(host, token, 0.0 if send_time.spent else NEVER_SENT)

    async def close(self) -> None:
        await self._downloader.close()


def ordered_for(hosts: Iterable[str]) -> dict[str, Ordered]:
    """The orders of operators for these hosts."""
    rows = Host.objects.filter(ORDERED, name__in=[*hosts])
    return {row.name: Ordered(row.paused, row.delay or 0.0) for row in rows}


@dataclass(frozen=True)
class Where:
    """The kept pages to learn from: of a task, of all tasks of a spider, or of a host."""

    task: int | None = None
    spider: str = ""
    host: str = ""


def pages(where: Where) -> QuerySet[KeptPage]:
    """The pages that may prove something. Raises ArgumentError if nothing is asked for, or nothing
    is there."""
    good = KeptPage.objects.filter(reason="", method="GET", status__range=(200, 299))
    rows = good.filter(sample=None)  # of a few pages, no two are the same
    if where.task is not None:
        rows = rows.filter(task__in=Task.objects.filter(pk=where.task))  # of any size
    if where.spider:
        rows = rows.filter(task__spider=where.spider)
    if where.host:
        rows = rows.filter(host=where.host)
    if where == Where():
        raise ArgumentError("say from which pages to learn: a task, --spider NAME or --host HOST")
    if not rows.exists():
        raise ArgumentError(_why_none(where))
    return rows


def _why_none(where: Where) -> str:
    if where.task is not None and not Task.objects.filter(pk=where.task).exists():
        return f"there is no task {where.task}; list them: {command('task list')}"
    parts = {"task": where.task, "spider": where.spider, "host": where.host}
    asked = ", ".join(f"{name} {value}" for name, value in parts.items() if value)
    if where.host:
        others = KeptPage.objects.filter(host__startswith=f"{where.host}:").order_by("host")
        if names := [*others.values_list("host", flat=True).distinct()[:5]]:
            return f"no pages are kept of {asked}; say the port: {', '.join(names)}"
    return f'no pages are kept of {asked}; keep = "all" keeps them, see docs/howto/kept-pages.md'


def samples(where: Where) -> Iterator[Sample]:
    """Raises as ``pages``."""
    columns = ("pk", "url", "record", "status", "headers", "body")
    rows = [*pages(where).order_by("-pk").values_list("pk", "body__size")[:MAX_PAGES]]
    for numbers in batches(rows, AT_A_TIME):
        some = [*KeptPage.objects.filter(pk__in=numbers).values(*columns)]
        bodies, unreadable = read_each({row["body"] for row in some})
        for error in unreadable.values():
            log.warning("a kept page is left out: %s", error)
        for row in some:
            body = bodies.get(row["body"])
            sample = None if body is None else _sample(row, body)
            if sample is not None:
                yield sample


def _sample(row: dict[str, Any], body: bytes) -> Sample | None:
    headers = row["headers"]
    try:
        request = Request(read_head(bytes(row["record"])).url)
    except BadRequest:
        return None
    if headers.get("rendered"):  # a page in a browser depends on the moment it is read
        return None
    if not _is_fit(request.url):
        return None
    received = [
        (name, value) for name, value in headers.get("received", ()) if name.lower() not in LEFT_OUT
    ]
    content = content_of(Response(row["url"], row["status"], received, body, request))
    return (
        Sample(request.url, row["url"], content.exact, content.unordered)
        if content.proves
        else None
    )


def _is_fit(url: str) -> bool:
    """Whether a rule may be about it: which is no place for names and passwords, either."""
    if len(url) > MAX_URL:
        return False
    origin = origin_of(url)
    return len(origin) <= MAX_ORIGIN and "@" not in origin
