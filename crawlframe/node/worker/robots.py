"""RobotsGuard: asks the robots.txt of an origin before anything of it is fetched.

One worker of the cluster reads the file, in the slot of the request that came first; that request
then goes back to the head of its lane, because the page has to pay the host's delay. The file is
read without the spider's middlewares: what one spider sends or changes must not decide what all
others may fetch."""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from redis import RedisError

from crawlframe.conf import Settings
from crawlframe.errors import BadUrl, PrivateAddress, RobotsForbidden, RobotsUnread
from crawlframe.fetch.downloader import Downloader
from crawlframe.frontier import Frontier
from crawlframe.ledger import Ledger, RobotsTurn
from crawlframe.links import host_of
from crawlframe.node.worker.commit import Committer
from crawlframe.node.worker.task_source import on_commit_thread
from crawlframe.request import Request
from crawlframe.response import Response
from crawlframe.robots.judge import judge
from crawlframe.robots.reading import MAX_FILE, PATH, Fetched, read
from crawlframe.robots.rules import ALLOW_ALL, LARGE, Rules, origin_of
from crawlframe.robots.state import MAX_ORIGIN, SILENT, RobotsState, Status
from crawlframe.robots.token import product_token, user_agent_of
from crawlframe.spider import SpiderSettings

log = logging.getLogger(__name__)

TIMEOUT = 30.0  # seconds for one robots.txt, redirects included
LEASE = 40.0  # seconds after which another worker may read it, if the first one has died
SHORTLY = 0.25  # seconds to wait while another worker reads it
RECHECK = 600.0  # seconds after which a worker looks again at what the database has
WATCH_EVERY = 1.0  # seconds between two looks for files that were forgotten
MAX_CACHED = 2_000  # parsed files kept in a worker


class Wait(BaseException):
    """The request waits in the frontier, without an attempt being counted: for ``seconds``, if it
    is held back by another host than its own. Not an Exception, so that a middleware that expects
    errors lets it pass."""

    def __init__(self, url: str, seconds: float = 0.0, *, shortly: bool = False) -> None:
        super().__init__(url, seconds)
        self.host = host_of(url)
        self.seconds = seconds
        self.shortly = shortly  # another worker reads the file: nothing else holds it back


class RobotsStore(ABC):
    """What the workers of a cluster know together."""

    @abstractmethod
    async def turn(self, origin: str, lease: float) -> RobotsTurn:
        """As Ledger.robots."""

    @abstractmethod
    async def save(self, origin: str, state: RobotsState) -> None:
        """As Ledger.save_robots."""

    @abstractmethod
    async def open(self, host: str, known_until: float, delay: float, now: float) -> bool:
        """Lets the requests of a host go that wait for its robots.txt, ``delay`` seconds apart.
        Returns whether they were held until now; the first of them goes after ``delay``."""

    @abstractmethod
    async def hold(self, host: str, seconds: float) -> None:
        """Makes the requests of a host wait that obey its robots.txt."""

    @abstractmethod
    async def forgotten(self) -> int | None:
        """A number that changes when somebody wants files to be read again; None: unknown."""


class _Known(NamedTuple):
    rules: Rules
    until: float  # by the worker's clock


class RobotsGuard:
    """The robots.txt of all origins, for one worker. Use it from one event loop. ``clock`` returns
    seconds."""

    def __init__(
        self,
        settings: Settings,
        downloader: Downloader,
        store: RobotsStore,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._downloader = downloader
        self.store = store
        self.clock = clock
        self._known: OrderedDict[tuple[str, str], _Known] = OrderedDict()
        self._loading: dict[tuple[str, str], asyncio.Future[Rules]] = {}
        self.forgotten = -1

    def check_for(self, request: Request, settings: SpiderSettings) -> RobotsCheck:
        """Returns the check of the URLs that are sent for a request."""
        own = user_agent_of(request.headers, settings.headers) or settings.user_agent
        return RobotsCheck(self, request, settings, own or self._settings.user_agent)

    async def rules_for(
        self, url: str, user_agent: str, request: Request, settings: SpiderSettings
    ) -> Rules:
        """Returns the rules for a URL. Raises Wait while they are unknown; RobotsUnread if nothing
        answered; PrivateAddress and BadUrl if no request may be sent there."""
        origin, token = origin_of(url), product_token(user_agent)
        if len(origin) > MAX_ORIGIN:  # no such host exists
            return ALLOW_ALL
        key = (origin, token)
        known = self._known.get(key)
        if known is not None and known.until > self.clock():
            self._known.move_to_end(key)
            return known.rules
        loading = self._loading.get(key)
        if loading is None:
            via = request.downloader or settings.downloader
            loading = asyncio.ensure_future(self._load(url, origin, token, user_agent, via))
            self._loading[key] = loading
            loading.add_done_callback(lambda done: self._loaded(key, done))
        try:
            return await asyncio.shield(loading)
        except RobotsUnread as error:  # each request has its own, for its errback
            raise error.copy() from None

    async def watch(self) -> None:
        """Looks for files that were forgotten, for ever."""
        while True:
            await asyncio.sleep(WATCH_EVERY)
            if self._known:
                self.forget_before(await self.store.forgotten())

    def forget_before(self, number: int | None) -> None:
        """Looks at the database again for all files, if the number differs from the last one."""
        if number is not None and number != self.forgotten:
            self.forgotten = number
            self._known.clear()

    def _loaded(self, key: tuple[str, str], done: asyncio.Future[Rules]) -> None:
        self._loading.pop(key, None)
        if not done.cancelled():
            done.exception()  # whoever waited for it has it

    async def _load(self, url: str, origin: str, token: str, user_agent: str, via: str) -> Rules:
        turn = await self.store.turn(origin, LEASE)
        state, now = turn.state, turn.now
        if turn.mine:
            began = self.clock()
            try:
                got = await self.read_file(origin, PATH, user_agent, via)
            except (PrivateAddress, BadUrl):
                await self.store.save(origin, state)
                raise
            now += self.clock() - began
            state = judge(state, got, now, token, self._settings.max_crawl_delay)
            _log(origin, turn.state, state)
            await self.store.save(origin, state)
        if state.is_known(now):
            return await self._take(url, token, state, now, turn.mine)
        if state.is_due(now):  # another worker reads it
            raise Wait(url, SHORTLY, shortly=True)
        left = state.next_try - now
        if state.reason in SILENT:
            raise RobotsUnread(origin, state.reason, state.note, left)
        await self.store.hold(host_of(url), left)
        raise Wait(url, left)

    async def read_file(self, origin: str, path: str, user_agent: str, via: str) -> Fetched:
        """Reads a file of an origin, within TIMEOUT. Raises as ``read`` does."""
        limits = SpiderSettings(timeout=TIMEOUT, max_body=MAX_FILE, cookies=False, downloader=via)

        async def transfer(url: str) -> Response:
            request = Request(url, headers={"User-Agent": user_agent}, redirects=0)
            return await self._downloader.fetch(request, limits)

        try:
            async with asyncio.timeout(TIMEOUT):
                return await read(origin, transfer, path)
        except TimeoutError:
            why = f"{origin}{path} was not complete within {TIMEOUT:g} s"
            return Fetched(reason="timeout", detail=why)

    async def _take(
        self, url: str, token: str, state: RobotsState, now: float, fresh: bool
    ) -> Rules:
        """Keeps the rules, and lets the host's requests go. Raises Wait for the request whose slot
        was used to read the file, or that came before the frontier knew the host's delay."""
        origin, host = origin_of(url), host_of(url)
        if state.status is not Status.RULES:
            rules = Rules(origin)
        elif len(state.text) > LARGE:
            rules = await asyncio.to_thread(Rules, origin, state.text, token)
        else:
            rules = Rules(origin, state.text, token)
        delay = min(rules.crawl_delay, self._settings.max_crawl_delay)
        opened = await self.store.open(host, state.known_until, delay, now)
        left = min(RECHECK, state.known_until - now)
        self._known[origin, token] = _Known(rules, self.clock() + left)
        if len(self._known) > MAX_CACHED:
            self._known.popitem(last=False)
        if fresh or (opened and delay):
            raise Wait(url, delay)
        return rules


class RobotsCheck:
    """Checks each URL that is sent for one request, after the middlewares. ``rules`` are those of
    the last one."""

    def __init__(
        self, guard: RobotsGuard, request: Request, settings: SpiderSettings, user_agent: str
    ) -> None:
        self.rules = ALLOW_ALL
        self._guard = guard
        self._request = request
        self._settings = settings
        self.user_agent = user_agent

    async def __call__(self, url: str) -> None:
        """Raises RobotsForbidden, and what ``RobotsGuard.rules_for`` raises."""
        self.rules = await self._guard.rules_for(
            url, self.user_agent, self._request, self._settings
        )
        if self.rules.large:
            allowed = await asyncio.to_thread(self.rules.allows, url)
        else:
            allowed = self.rules.allows(url)
        if not allowed:
            token = product_token(self.user_agent)
            raise RobotsForbidden(f"{origin_of(url)}/robots.txt forbids {url} to {token}")


class StoredRobots(RobotsStore):
    """The database and Redis, on the connections of the commit thread."""

    def __init__(self, committer: Committer, frontier: Frontier, ledger: Ledger) -> None:
        self._committer = committer
        self._frontier = frontier
        self._ledger = ledger

    async def turn(self, origin: str, lease: float) -> RobotsTurn:
        return await on_commit_thread(self._committer, lambda: self._ledger.robots(origin, lease))

    async def save(self, origin: str, state: RobotsState) -> None:
        await on_commit_thread(self._committer, lambda: self._ledger.save_robots(origin, state))

    async def open(self, host: str, known_until: float, delay: float, now: float) -> bool:
        hosts = self._frontier.hosts
        return await on_commit_thread(
            self._committer, lambda: hosts.open_robots(host, known_until, delay, now)
        )

    async def hold(self, host: str, seconds: float) -> None:
        hosts = self._frontier.hosts
        await on_commit_thread(self._committer, lambda: hosts.hold_robots(host, seconds))

    async def forgotten(self) -> int | None:
        def look() -> int | None:
            try:
                return self._frontier.hosts.robots_forgotten()
            except (RedisError, OSError):
                return None

        return await on_commit_thread(self._committer, look)


def _log(origin: str, before: RobotsState, after: RobotsState) -> None:
    if after.unreachable_since and not before.unreachable_since:
        log.warning("robots.txt of %s: %s", origin, after.note)
    elif before.unreachable_since and not after.unreachable_since:
        log.info("robots.txt of %s can be read again", origin)
