"""Permits: fetches of a worker outside of the queue, within the limits of a host, and redirects to
pages of other requests."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import NamedTuple

from redis import RedisError

from crawlframe.base.urls import host_of
from crawlframe.errors import Fenced, FetchError
from crawlframe.fetch.downloader import limits_of
from crawlframe.fetch.journey.context import SendTime
from crawlframe.frontier.client.records import NEVER_SENT, NO_SIGNAL, Signal
from crawlframe.frontier.permits import Permit
from crawlframe.frontier.reservations import Target
from crawlframe.node.worker.commit.stores import Batches, Stores
from crawlframe.node.worker.crawl.stage import CrawlFetch
from crawlframe.node.worker.crawl.task_crawl import TaskCrawl
from crawlframe.proxies.place import limited_at
from crawlframe.run.reasons import CANCELLED

LONGEST_WAIT = 60.0  # seconds that a fetch waits for its host; callbacks have 120 by default
ASK_AGAIN = 1.0  # seconds, at most: a slot is kept for three
MARGIN = 30.0  # seconds that a permit outlasts the timeout of its fetch


class HostBusy(FetchError):
    """The host rests, is paused or has too much to do to be fetched from inside of a callback."""

    reason = "host_busy"

    def __init__(self, host: str, after: float) -> None:
        """``after``: seconds until it may be asked again, as far as known."""
        super().__init__(
            f"{host} may not be asked within {LONGEST_WAIT:g} s, so nothing was fetched"
        )
        self.after = after


class TaskOver(FetchError):
    """The task was cancelled, so nothing more is fetched for it."""

    reason = CANCELLED
    retryable = False

    def __init__(self, host: str) -> None:
        super().__init__(f"nothing was fetched from {host}: the task was cancelled")


class HostFetch(NamedTuple):
    """A fetch of a host, within so many ``seconds``. ``lender``: a request of this worker that is
    being run, whose slot it uses. ``address``: of the host, for a task that limits requests per
    address."""

    host: str
    seconds: float
    lender: bytes = b""
    address: str = ""


class HeldPermit:
    """A permit while its fetch is made. ``signal``: the fetch's report about the host.
    ``sent``: time.monotonic() when it was sent, in seconds; None: not yet."""

    signal = NO_SIGNAL
    sent: float | None = None

    @property
    def ago(self) -> float:
        """Milliseconds since the fetch was sent, or NEVER_SENT."""
        return NEVER_SENT if self.sent is None else 1000 * (time.monotonic() - self.sent)


class HostPermits(ABC):
    """Permits of one worker, asked from one event loop."""

    @abstractmethod
    def take(
        self, crawl: TaskCrawl, asked: HostFetch, send_time: SendTime
    ) -> contextlib.AbstractAsyncContextManager[HeldPermit]:
        """A context for one fetch of a task, which gets its ``send_time``. Raises HostBusy and
        TaskOver."""

    def beside(
        self, fetch: CrawlFetch, home: str, lender: bytes, route: str, url: str
    ) -> contextlib.AbstractAsyncContextManager[HeldPermit]:
        """A further permit of a fetch, at the host of a URL. At its ``home`` it has the slot of the
        ``lender``."""
        host, via, settings = host_of(url), fetch.proxy, fetch.crawl.settings
        place = limited_at(host, route, via.id if via else 0)
        asked = place, limits_of(fetch.asked, settings).timeout, lender if host == home else b""
        return self.take(fetch.crawl, HostFetch(*asked), fetch.send_time)

    async def follow(self, target: Target) -> int:
        """As Reservations.follow. Without a frontier, every redirect is followed."""
        return 0


class StoredPermits(HostPermits):
    """Permits of the frontier."""

    def __init__(self, stores: Stores, generation: int) -> None:
        self._stores = stores
        self._permits = stores.frontier.permits
        self._targets = Batches(stores, stores.frontier.reservations.follow)
        self._generation = generation

    @contextlib.asynccontextmanager
    async def take(
        self, crawl: TaskCrawl, asked: HostFetch, send_time: SendTime
    ) -> AsyncIterator[HeldPermit]:
        token, held, task = os.urandom(9), HeldPermit(), crawl.spec.task
        host, lasts = asked.host, round(1000 * (asked.seconds + MARGIN))

        def ask(patience: int) -> Permit:
            where = self._generation, task, host, token
            return self._permits.ask(*where, lasts, patience, asked.lender, asked.address)

        def note_sent() -> None:
            held.sent = time.monotonic()
            self._tell(lambda: self._permits.note_sent(host, token, held.ago, self._generation))

        def end() -> None:
            signal = Signal(*held.signal)
            self._permits.end(self._generation, task, host, token, signal, held.ago)

        try:
            permit = await self._wait_for(host, ask)
            due = time.monotonic() + permit.wait / 1000
            send_time.put_off(due, note_sent if permit.spaced else lambda: None)
            await asyncio.sleep(permit.wait / 1000)
            yield held
        finally:
            self._tell(end)

    async def follow(self, target: Target) -> int:
        return await self._targets.ask(target)

    async def _wait_for(self, host: str, ask: Callable[[int], Permit]) -> Permit:
        until = time.monotonic() + LONGEST_WAIT
        while True:
            left = until - time.monotonic()
            permit = await self._stores.ask(partial(ask, max(0, round(1000 * left))))
            if permit.ended:
                raise TaskOver(host)
            if permit.given:
                return permit
            if permit.wait > 1000 * left:
                raise HostBusy(host, permit.wait / 1000)
            await asyncio.sleep(min(permit.wait / 1000, ASK_AGAIN))

    def _tell(self, report: Callable[[], None]) -> None:
        def tell() -> None:
            try:
                report()
            except Fenced:
                self._stores.leave()
            except (RedisError, OSError):
                pass  # the permit lapses

        self._stores.call(tell)


class LocalPermits(HostPermits):
    """Permits of a worker without a frontier: one fetch of a host at a time, with the delay of the
    spider in between; with "auto", as long as the host took to answer."""

    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._next: dict[str, float] = {}  # host -> when it may be asked again

    @contextlib.asynccontextmanager
    async def take(
        self, crawl: TaskCrawl, asked: HostFetch, send_time: SendTime
    ) -> AsyncIterator[HeldPermit]:
        host = asked.host
        # A fetch within another one of the host would wait for that.
        async with contextlib.nullcontext() if asked.lender else self._locks[host]:
            due = self._next.get(host, 0.0)
            send_time.put_off(due, lambda: None)
            await asyncio.sleep(due - time.monotonic())
            began = time.monotonic()
            try:
                yield HeldPermit()
            finally:
                now, settings = time.monotonic(), crawl.settings
                auto = max(settings.min_delay, now - began)
                self._next[host] = now + (auto if settings.delay == "auto" else settings.delay)
