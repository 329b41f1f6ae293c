"""Permits: fetches of a worker outside of the queue, within the limits of a host, and redirects to
pages of other requests."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import AsyncIterator

from redis import RedisError

from crawlframe.errors import Fenced, FetchError
from crawlframe.frontier.client.records import NO_SIGNAL, Signal
from crawlframe.frontier.permits import Permit
from crawlframe.frontier.reservations import Target
from crawlframe.node.worker.commit.stores import Batches, Stores
from crawlframe.node.worker.crawl.task_crawl import TaskCrawl
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


class HeldPermit:
    """A permit while its fetch is made. ``signal``: the fetch's report about the host."""

    signal = NO_SIGNAL


class HostPermits(ABC):
    """Permits of one worker, asked from one event loop."""

    @abstractmethod
    def take(
        self,
        crawl: TaskCrawl,
        host: str,
        seconds: float,
        *,
        own: bool = False,
        address: str = "",
    ) -> contextlib.AbstractAsyncContextManager[HeldPermit]:
        """A context for one fetch of a task, within so many seconds. ``own``: in the slot of a
        request of this worker that is being run. ``address``: of the host, for a task that limits
        requests per address. Raises HostBusy and TaskOver."""

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
        self,
        crawl: TaskCrawl,
        host: str,
        seconds: float,
        *,
        own: bool = False,
        address: str = "",
    ) -> AsyncIterator[HeldPermit]:
        token, held = os.urandom(9), HeldPermit()
        try:
            await self._wait_for(crawl.spec.task, host, token, seconds, own, address)
            yield held
        finally:
            self._end(crawl.spec.task, host, token, held)

    async def follow(self, target: Target) -> int:
        return await self._targets.ask(target)

    async def _wait_for(
        self, task: int, host: str, token: bytes, seconds: float, own: bool, address: str
    ) -> None:
        until = time.monotonic() + LONGEST_WAIT
        while True:
            left = until - time.monotonic()
            ms = round(1000 * (seconds + MARGIN)), max(0, round(1000 * left))

            def ask(ms: tuple[int, int] = ms) -> Permit:
                where = self._generation, task, host, token
                return self._permits.ask(*where, *ms, own=own, address=address)

            permit = await self._stores.ask(ask)
            if permit.ended:
                raise TaskOver(host)
            if permit.given:
                return await asyncio.sleep(permit.wait / 1000)
            if permit.wait > 1000 * left:
                raise HostBusy(host, permit.wait / 1000)
            await asyncio.sleep(min(permit.wait / 1000, ASK_AGAIN))

    def _end(self, task: int, host: str, token: bytes, held: HeldPermit) -> None:
        def end() -> None:
            try:
                self._permits.end(self._generation, task, host, token, Signal(*held.signal))
            except Fenced:
                self._stores.leave()
            except (RedisError, OSError):
                pass  # it lapses

        self._stores.call(end)


class LocalPermits(HostPermits):
    """Permits of a worker without a frontier: one fetch of a host at a time, with the delay of the
    spider in between; with "auto", as long as the host took to answer."""

    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._next: dict[str, float] = {}  # host -> when it may be asked again

    @contextlib.asynccontextmanager
    async def take(
        self,
        crawl: TaskCrawl,
        host: str,
        seconds: float,
        *,
        own: bool = False,
        address: str = "",
    ) -> AsyncIterator[HeldPermit]:
        async with self._locks[host]:
            await asyncio.sleep(self._next.get(host, 0.0) - time.monotonic())
            began = time.monotonic()
            try:
                yield HeldPermit()
            finally:
                now, settings = time.monotonic(), crawl.settings
                auto = max(settings.min_delay, now - began)
                self._next[host] = now + (auto if settings.delay == "auto" else settings.delay)
