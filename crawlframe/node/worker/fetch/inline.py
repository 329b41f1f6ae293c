"""InlineFetch: fetches inside of a callback or a middleware, outside of the queue; Offline refuses
them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import ClassVar
from weakref import WeakValueDictionary

from crawlframe.base.limits import HOST_BYTE_LIMIT
from crawlframe.base.stats import RUNNING
from crawlframe.errors import ConfigError, FetchError, ProxyFailed, RobotsUnread
from crawlframe.fetch.body.memory import Account
from crawlframe.fetch.downloader import Downloader, limits_of
from crawlframe.fetch.journey.trail import Challenged, Trail
from crawlframe.node.worker.crawl.stage import CrawlFetch, Next, Stage
from crawlframe.node.worker.crawl.task_crawl import TaskCrawl
from crawlframe.node.worker.fetch.fetching import MAX_CHALLENGES
from crawlframe.node.worker.fetch.permits import LONGEST_WAIT, HostFetch, HostPermits
from crawlframe.node.worker.fetch.proxies import ProxySource
from crawlframe.node.worker.robots.site_files import Wait
from crawlframe.proxies.place import limited_at
from crawlframe.proxies.proxy import ChosenProxy
from crawlframe.request.request import Request, make_rid
from crawlframe.response.response import Response
from crawlframe.run.outcome import Outcome

POLL = 0.25  # seconds between two looks whether a robots.txt was read


class BytesSpent(FetchError):
    """The task has spent its bytes of this host."""

    reason = HOST_BYTE_LIMIT
    retryable = False

    def __init__(self, host: str) -> None:
        super().__init__(f"{host}: {HOST_BYTE_LIMIT} is spent, so nothing more is fetched")


class InlineFetch:
    """The fetches of callbacks of one task in one worker. They wait for a permit of the host, so
    its delay and concurrency hold over the cluster; each redirect is a fetch of its own. robots.txt
    is obeyed, bytes are counted, the development cache is used, and the middlewares of the spider
    are around each fetch.

    A request that has a slot of its host already lends it to its fetches of that host, one at a
    time: they could wait for ever for another slot. No lock is held while authors' code runs, as
    that may fetch again."""

    offline: ClassVar = False

    def __init__(
        self,
        crawl: TaskCrawl,
        downloader: Downloader,
        stages: Callable[[TaskCrawl, Stage[CrawlFetch]], Next[CrawlFetch]],
        permits: HostPermits,
        proxies: ProxySource | None,
    ) -> None:
        """``stages``: as of Stages; ``proxies`` None: requests of the pool are not sent."""
        self._crawl = crawl
        self._downloader = downloader
        self._permits = permits
        self._proxies = proxies
        self._stages = stages(crawl, self._permit)
        self._rooms: WeakValueDictionary[tuple[str, bytes], asyncio.Semaphore] = (
            WeakValueDictionary()
        )

    async def fetch(self, request: Request) -> Response:
        """Returns the response, whatever its status. Raises FetchError."""
        trail = Trail(request, paced=True)
        try:
            with self._downloader.memory.account() as account:
                return await trail.follow(partial(self._hop, trail, account))
        finally:
            self._share_cookies()

    def keep_cookies(self, request: Request, cookies: Mapping[str, str]) -> None:
        """Puts cookies into the jar of ``request``, as if its host had set them."""
        session = request.options.session
        if self._crawl.settings.cookies or session is not None:
            set_cookies = [f"{name}={value}; Path=/" for name, value in cookies.items()]
            self._crawl.cookies.absorb(request.url, set_cookies, session or "")
            self._share_cookies()

    async def _hop(self, trail: Trail, account: Account, asked: Request) -> Response:
        download = partial(self._download, trail, account)
        if self._crawl.middlewares is None:
            return await download(asked)
        return await self._crawl.middlewares.fetch(asked, download)

    async def _download(self, trail: Trail, account: Account, asked: Request) -> Response:
        trail.begin()
        rid = make_rid(self._crawl.spec.task, asked.fingerprint())
        fetch = CrawlFetch(self._crawl, rid, asked, trail, account)
        return await self._stages(fetch)

    async def _permit(self, fetch: CrawlFetch, call_next: Next[CrawlFetch]) -> Response:
        """A stage: waits for the host, and counts the bytes. Raises BytesSpent and the errors of
        ``HostPermits.take``."""
        crawl, asked = self._crawl, fetch.asked
        if crawl.budget is not None and crawl.budget.is_spent(asked.host):
            raise BytesSpent(asked.host)
        outcome = RUNNING.get(None)
        route = crawl.route(asked)
        lends = isinstance(outcome, Outcome) and outcome.lends(asked.host, route)
        lender = outcome if lends and isinstance(outcome, Outcome) else None
        async with self._room(asked.host, lender):
            response = await self._permitted(fetch, route, lender, call_next)
        self._count(asked.host, response.size)
        if response.file is not None and isinstance(outcome, Outcome):
            outcome.results.files.append(response.file)
        return response

    async def _permitted(
        self,
        fetch: CrawlFetch,
        route: str,
        lender: Outcome | None,
        call_next: Next[CrawlFetch],
    ) -> Response:
        """Fetches with a permit, and again with another permit once the robots.txt is known, or to
        answer a challenge."""
        crawl, asked, challenges = self._crawl, fetch.asked, 0
        patient_until = time.monotonic() + LONGEST_WAIT
        seconds = limits_of(asked, crawl.settings).timeout
        while True:
            own = lender is not None and lender.lends(asked.host, route)
            via = (
                lender.fetch.via
                if own and lender is not None
                else await self._proxy_for(asked, route)
            )
            where = limited_at(asked.host, route, via.id if via else 0)
            address = ""
            if crawl.settings.ip.limited:
                address = await self._downloader.address_of(asked.url)
            rid = lender.rid if own and lender is not None else b""
            permit_of = self._permits.take(
                crawl, HostFetch(where, seconds, rid, address), fetch.send_time
            )
            try:
                async with permit_of as permit:
                    if lender is not None:
                        lender.fetch.slot_lent = True
                    turn_at = partial(self._permits.beside, fetch, asked.host, fetch.rid, route)
                    fetch.proxy, fetch.turn_at, fetch.send_time.turn_at = via, turn_at, turn_at
                    try:
                        return await call_next(fetch)
                    finally:
                        permit.signal = fetch.signal
            except Challenged:
                challenges += 1
                fetch.trail.paced = challenges < MAX_CHALLENGES
            except Wait as wait:
                pause = max(POLL, wait.seconds)
                if time.monotonic() + pause > patient_until:
                    why = f"it is not known within {LONGEST_WAIT:g} s"
                    raise RobotsUnread(asked.url, "timeout", why, pause) from None
                await asyncio.sleep(pause)

    async def _proxy_for(self, asked: Request, route: str) -> ChosenProxy | None:
        """The proxy of a fetch in a slot of its own. Raises ProxyFailed."""
        if not route or self._proxies is None:
            return None
        try:
            found = await self._proxies.for_route(route)
        except ConfigError as error:
            raise ProxyFailed(f"{asked.url}: {error}") from None
        if found is None:
            raise ProxyFailed(f"{asked.url}: no proxy of {route!r} is known, so it is not sent")
        return found

    def _room(self, host: str, lender: Outcome | None) -> asyncio.Semaphore:
        """Bounds the fetches that wait for one host; those in a lent slot take turns."""
        key = host, b"" if lender is None else lender.rid
        room = self._rooms.get(key)
        if room is None:
            room = asyncio.Semaphore(self._crawl.settings.concurrency if lender is None else 1)
            self._rooms[key] = room
        return room

    def _count(self, host: str, size: int) -> None:
        """Counts the bytes against the limits of the task, together with the current page."""
        outcome, budget = RUNNING.get(None), self._crawl.budget
        if budget is None or not isinstance(outcome, Outcome):
            return
        outcome.fetch.budget = budget
        outcome.fetch.inline_bytes[host] = outcome.fetch.inline_bytes.get(host, 0) + size
        budget.spent[host] = budget.spent.get(host, 0) + size

    def _share_cookies(self) -> None:
        """Puts changes of the cookie jar into the outcome of the running request."""
        outcome = RUNNING.get(None)
        if isinstance(outcome, Outcome) and (changes := self._crawl.cookies.changes()):
            outcome.fetch.cookies = {**(outcome.fetch.cookies or {}), **changes}


class WithoutNetwork(FetchError):
    """The callback of a kept page fetches another page."""

    reason = "without_network"
    retryable = False

    def __init__(self, url: str) -> None:
        super().__init__(f"{url} is not fetched: kept pages are parsed without the network")


class Offline:
    """Replaces InlineFetch in a task whose kept pages are parsed."""

    offline: ClassVar = True

    async def fetch(self, request: Request) -> Response:
        """Raises WithoutNetwork."""
        raise WithoutNetwork(request.url)

    def keep_cookies(self, request: Request, cookies: Mapping[str, str]) -> None:
        """Does nothing: no request is sent that could have them."""
