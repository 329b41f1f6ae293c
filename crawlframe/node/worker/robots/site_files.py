"""SiteFiles: reads robots.txt, and files like it, for the whole cluster. A file that redirects is
read by the request that needs it, on an errand: for each redirect that request goes to the lane of
the host it leads to, so that it has a slot there and that host's delay is kept."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from redis import RedisError

from crawlframe.base.urls import host_of
from crawlframe.conf import Settings
from crawlframe.errors import BadUrl, PrivateAddress, ProxyFailed
from crawlframe.fetch.downloader import Downloader
from crawlframe.fetch.journey.context import FetchContext, SendTime, TurnAt
from crawlframe.frontier.client.records import ANSWERED, NO_SIGNAL, REFUSED, UNREACHABLE, Signal
from crawlframe.node.worker.commit.stores import Batches, Stores
from crawlframe.node.worker.verdict.signals import NO_MEASURE, REFUSING
from crawlframe.proxies.proxy import ChosenProxy
from crawlframe.request.record import Errand
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlframe.robots import tdmrep
from crawlframe.robots.reading import MAX_FILE, PATH, Fetched, RobotsMoved, ask, judge
from crawlframe.robots.rules import product_token
from crawlframe.robots.state import SILENT, RobotsState
from crawlframe.run.ledger import RobotsTurn
from crawlframe.spider.settings import SpiderSettings

log = logging.getLogger(__name__)

TIMEOUT = 30.0  # seconds for one transfer
ERRAND = 180.0  # seconds after which another request may, if the first one waits elsewhere
LEASE = 40.0  # seconds after which another worker may read a file, if the first one has died
RETRY_SECONDS = 0.25  # seconds to wait while another worker reads it


class Wait(BaseException):
    """The request waits in the frontier, without an attempt being counted: for ``seconds``, if it
    is held back by another host than its own. Not an Exception, so that a middleware that expects
    errors lets it pass."""

    def __init__(self, url: str, seconds: float = 0.0, *, shortly: bool = False) -> None:
        super().__init__(url, seconds)
        self.host = host_of(url)
        self.seconds = seconds
        self.shortly = shortly  # another worker reads the file: nothing else holds it back


class Elsewhere(BaseException):
    """The file redirects: the request that reads it has an errand. Not an Exception, so that a
    middleware that expects errors lets it pass."""

    def __init__(self, errand: Errand) -> None:
        super().__init__(errand)
        self.errand = errand


class FileStep(NamedTuple):
    """A step of an errand: the next errand, None if the file was read; the transfer's report about
    its host, its status, if it was answered, and whether there was a transfer."""

    errand: Errand | None
    signal: Signal = NO_SIGNAL
    status: int | None = None
    sent: bool = False


class RobotsStore:
    """Shared by all workers: the states of files, by the origin of a robots.txt or the URL of
    another file, and the gates of their hosts. Questions about many files are one query."""

    def __init__(self, stores: Stores) -> None:
        self._ask = stores.ask
        self._hosts = stores.frontier.hosts
        self._ledger = stores.ledger.robots
        self._turns = Batches(stores, partial(self._ledger.turns, lease=LEASE))
        self._saves = Batches(stores, self._save)

    async def turn(self, origin: str) -> RobotsTurn:
        """Returns the state of a file. If it is due and unread, it is the caller's turn."""
        return await self._turns.ask(origin)

    async def keep(self, origin: str, lease: float) -> None:
        """As RobotsLedger.keep."""
        await self._ask(lambda: self._ledger.keep(origin, lease))

    async def save(self, origin: str, state: RobotsState) -> None:
        """As RobotsLedger.save."""
        await self._saves.ask((origin, state))

    async def open(self, host: str, known_until: float, delay: float, now: float) -> bool:
        """Lets the requests of a host go that wait for its robots.txt, ``delay`` seconds apart.
        Returns whether they were held until now; the first of them goes after ``delay``."""
        return await self._ask(lambda: self._hosts.open_robots(host, known_until, delay, now))

    async def defer_for_robots(self, host: str, seconds: float, *, errand: bool = False) -> None:
        """Makes the requests of a host wait that obey its robots.txt, which cannot be read, or is
        read by a request on an ``errand``; with 0, no longer."""
        await self._ask(partial(self._hosts.hold_robots, host, seconds, known=errand))

    async def forgotten(self) -> int | None:
        """A number that changes when the files must be read again; None: unknown."""

        def look() -> int | None:
            try:
                return self._hosts.robots_forgotten()
            except (RedisError, OSError):
                return None

        return await self._ask(look)

    def _save(self, states: list[tuple[str, RobotsState]]) -> list[None]:
        self._ledger.save(dict(states))
        return [None] * len(states)


class SiteFiles:
    """Rule files of all origins, read by one worker in one event loop. ``clock`` returns
    seconds."""

    def __init__(
        self,
        settings: Settings,
        downloader: Downloader,
        store: RobotsStore,
        clock: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._downloader = downloader
        self._store = store
        self._clock = clock

    async def read(
        self,
        errand: Errand,
        turn: RobotsTurn,
        send_time: SendTime | None,
        proxy: ChosenProxy | None = None,
        turn_at: TurnAt | None = None,
    ) -> RobotsTurn:
        """Reads a file where it should be, and returns the turn with its state. ``send_time``: of
        its transfers; ``proxy``: through which they go; ``turn_at``: as of CrawlFetch. Raises
        Elsewhere if it redirects; PrivateAddress and BadUrl if no request may be sent there;
        ProxyFailed; with ``turn_at``, FetchError if there is no turn."""
        began = self._clock()
        try:
            got = await self._ask(errand, send_time, proxy)
            while isinstance(got, RobotsMoved):
                errand = errand._replace(url=got.url, hops=errand.hops + 1)
                if turn_at is None:
                    await self._send_out(errand)
                    raise Elsewhere(errand)
                await self._store.keep(key_of(errand.file), ERRAND)
                async with turn_at(errand.url):
                    got = await self._ask(errand, send_time, proxy)
        except (PrivateAddress, BadUrl, ProxyFailed):
            await self._store.save(key_of(errand.file), turn.state)
            raise
        now = turn.now + self._clock() - began
        return turn._replace(state=await self._settle(errand, turn.state, got, now), now=now)

    async def go_on(
        self, errand: Errand, send_time: SendTime | None = None, proxy: ChosenProxy | None = None
    ) -> FileStep:
        """Makes the next transfer of an errand, unless the file was read meanwhile. Raises
        ProxyFailed."""
        turn = await self._store.turn(key_of(errand.file))
        step = FileStep(None)
        if turn.state.is_due(turn.now):
            clock = self._clock if send_time is None else send_time.elapsed
            began = clock()
            got = await self._ask(errand, send_time, proxy)
            seconds = clock() - began
            step = FileStep(None, _signal_of(got, seconds), got.status, sent=True)
            if isinstance(got, RobotsMoved):
                errand = errand._replace(url=got.url, hops=errand.hops + 1)
                await self._send_out(errand)
                return step._replace(errand=errand)
            await self._settle(errand, turn.state, got, turn.now + seconds)
        await self._store.defer_for_robots(host_of(errand.file), 0, errand=True)
        return step

    async def _send_out(self, errand: Errand) -> None:
        """Others wait for the request that reads the file; not if it is in their own way."""
        host = host_of(errand.file)
        away = host_of(errand.url) != host
        await self._store.keep(key_of(errand.file), ERRAND)
        await self._store.defer_for_robots(host, ERRAND if away else 0, errand=True)

    async def _settle(
        self, errand: Errand, before: RobotsState, got: Fetched, now: float
    ) -> RobotsState:
        if errand.file.endswith(tdmrep.PATH):
            state = tdmrep.judge_file(got, now)
        else:
            token = product_token(errand.user_agent)
            state = judge(before, got, now, token, self._settings.max_crawl_delay)
            _log(errand.file, before, state)
        await self._store.save(key_of(errand.file), state)
        return state

    async def _ask(
        self, errand: Errand, send_time: SendTime | None, proxy: ChosenProxy | None
    ) -> Fetched | RobotsMoved:
        limits = SpiderSettings(
            timeout=TIMEOUT, max_body=MAX_FILE, cookies=False, downloader=errand.via
        )

        context = FetchContext(send_time=send_time, proxy=proxy)

        async def transfer(url: str) -> Response:
            request = Request(url, headers={"User-Agent": errand.user_agent}, redirects=0)
            return await self._downloader.fetch(request, limits, context)

        try:
            async with asyncio.timeout(TIMEOUT):
                return await ask(errand.url, errand.hops, transfer)
        except TimeoutError:
            why = f"{errand.url} was not complete within {TIMEOUT:g} s"
            return Fetched(hops=errand.hops, reason="timeout", detail=why)


def key_of(file: str) -> str:
    """The name of a file in the store."""
    return file.removesuffix(PATH)


def _signal_of(got: Fetched | RobotsMoved, seconds: float) -> Signal:
    if got.status in REFUSING:
        asked = got.retry_after if isinstance(got, Fetched) else 0
        return Signal(REFUSED, round(1000 * asked) or NO_MEASURE)
    if got.status is not None:
        return Signal(ANSWERED, round(1000 * seconds))
    if isinstance(got, Fetched) and got.lost:  # nothing was sent
        return NO_SIGNAL
    silent = isinstance(got, Fetched) and got.reason in SILENT and got.reason != "tls"
    return Signal(UNREACHABLE) if silent else Signal(ANSWERED, NO_MEASURE)


def _log(file: str, before: RobotsState, after: RobotsState) -> None:
    if after.unreachable_since and not before.unreachable_since:
        log.warning("%s: %s", file, after.note)
    elif before.unreachable_since and not after.unreachable_since:
        log.info("%s can be read again", file)
