"""RobotsGuard: asks the robots.txt of an origin before any fetch; TdmGuard: asks its tdmrep.json.
The files are read without the spider's middlewares: headers of one spider must not decide the
fetches of all others.

Such files state the rules of an origin. Each is read by one worker of the cluster, in the slot of
the request that came first, which then goes back to the head of its lane, because its page has to
pay the host's delay."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from functools import partial
from typing import ClassVar, Generic, NamedTuple, TypeVar

from crawlframe.base.bounded_dict import BoundedDict
from crawlframe.base.urls import host_of
from crawlframe.conf import Settings
from crawlframe.errors import ProxyFailed, RobotsForbidden, RobotsUnread
from crawlframe.fetch.downloader import Downloader
from crawlframe.fetch.journey.context import SendTime, TurnAt
from crawlframe.node.worker.crawl.stage import F, Next, NoResponse
from crawlframe.node.worker.robots.site_files import (
    RETRY_SECONDS,
    Elsewhere,
    RobotsStore,
    SiteFiles,
    Wait,
    key_of,
)
from crawlframe.proxies.proxy import ChosenProxy
from crawlframe.request.downloader_names import BROWSER
from crawlframe.request.record import Errand
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlframe.robots import tdmrep
from crawlframe.robots.reading import PATH
from crawlframe.robots.rules import (
    ALLOW_ALL,
    LARGE_FILE,
    Rules,
    origin_of,
    product_token,
    user_agent_of,
)
from crawlframe.robots.state import MAX_ORIGIN, SILENT, RobotsState, Status
from crawlframe.robots.tdmrep import NO_TDM_RULES, TdmRules
from crawlframe.spider.settings import SpiderSettings

WATCH_EVERY = 1.0  # seconds between two looks for files that were forgotten
MAX_CACHED = 2_000  # files of one kind that a worker keeps, parsed
RECHECK = 600.0  # seconds after which a worker looks again into the database

K = TypeVar("K")
V = TypeVar("V")


class LoadedValue(NamedTuple, Generic[V]):
    """A value, and the seconds for which it may be kept. ``first`` is raised to callers that have
    waited for it, in place of the value."""

    value: V
    seconds: float
    first: BaseException | None = None


class Reader(NamedTuple):
    """The way that a request reads a file: ``user_agent`` and the downloader ``via`` are its own;
    ``send_time``, ``proxy`` and ``turn_at`` as in ``SiteFiles.read``."""

    user_agent: str
    via: str
    send_time: SendTime | None = None
    proxy: ChosenProxy | None = None
    turn_at: TurnAt | None = None


class SiteRules(ABC, Generic[K, V]):
    """The files of one kind of all origins, for one worker: each is loaded once for all requests
    that need it at a time, and those used last are kept. Use it from one event loop. ``clock``
    returns seconds."""

    path: ClassVar[str]

    def __init__(
        self, store: RobotsStore, files: SiteFiles, clock: Callable[[], float], unlimited: V
    ) -> None:
        """``unlimited``: the rules of an origin that cannot exist."""
        self.store = store
        self.files = files
        self._unlimited = unlimited
        self.clock = clock
        self._kept: BoundedDict[K, tuple[V, float]] = BoundedDict(MAX_CACHED)
        self._loading: dict[K, asyncio.Task[LoadedValue[V]]] = {}

    async def rules_for(self, url: str, reader: Reader) -> V:
        """Returns the rules for a URL. Raises Wait while they are unknown; Elsewhere and
        ProxyFailed as ``SiteFiles.read`` does, to the request that reads the file; PrivateAddress
        and BadUrl if no request may be sent there."""
        origin = origin_of(url)
        key = self._key(origin, reader)
        kept = self._kept.use(key)
        if kept is not None and kept[1] > self.clock():
            return kept[0]
        file = origin + self.path
        if len(key_of(file)) > MAX_ORIGIN:  # no such host exists
            return self._unlimited
        errand = Errand(file, file, 0, reader.user_agent, reader.via, host_of(url))
        loading = self._loading.get(key)
        first = loading is None
        if loading is None:
            loading = asyncio.ensure_future(self._load(url, errand, reader))
            self._loading[key] = loading
            loading.add_done_callback(partial(self._keep, key))
        try:
            loaded = await asyncio.shield(loading)  # others wait for it if this one is cancelled
        except Elsewhere:
            if first:
                raise
            raise Wait(url) from None
        except ProxyFailed:  # the others have proxies of their own
            if first:
                raise
            raise Wait(url, RETRY_SECONDS, shortly=True) from None
        if loaded.first is not None:
            raise loaded.first
        return loaded.value

    def _keep(self, key: K, done: asyncio.Task[LoadedValue[V]]) -> None:
        current = self._loading.get(key) is done
        if current:
            del self._loading[key]
        if done.cancelled() or done.exception() is not None:  # whoever waited for it has it
            return
        loaded = done.result()
        if current:
            self._kept[key] = loaded.value, self.clock() + loaded.seconds

    async def _load(self, url: str, errand: Errand, reader: Reader) -> LoadedValue[V]:
        turn = await self.store.turn(key_of(errand.file))
        if turn.mine:
            turn = await self.files.read(
                errand, turn, reader.send_time, reader.proxy, reader.turn_at
            )
        state, now, fresh = turn
        if not state.is_known(now):
            raise await self._unknown(url, state, now)
        return await self._known(url, reader, state, now, fresh)

    @abstractmethod
    def _key(self, origin: str, reader: Reader) -> K:
        """The key of the rules that this reader gets from an origin."""

    @abstractmethod
    async def _known(
        self, url: str, reader: Reader, state: RobotsState, now: float, fresh: bool
    ) -> LoadedValue[V]:
        """The rules of a file that was read; ``fresh``: in the slot of this request."""

    async def _unknown(self, url: str, state: RobotsState, now: float) -> BaseException:
        """Returns the exception to raise while the file is not known: another worker reads it."""
        return Wait(url, RETRY_SECONDS, shortly=True)


class RobotsGuard(SiteRules[tuple[str, str], Rules]):
    """The robots.txt of all origins, for one worker; a stage of spiders that obey them."""

    path = PATH

    def __init__(
        self,
        settings: Settings,
        downloader: Downloader,
        store: RobotsStore,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(store, SiteFiles(settings, downloader, store, clock), clock, ALLOW_ALL)
        self._settings = settings
        self.forgotten = -1

    async def fetch(
        self,
        fetch: F,
        call_next: Next[F],
        divert: Callable[[F, Wait | Elsewhere], Awaitable[None]] | None = None,
    ) -> Response:
        """Checks each URL of the fetch before it is sent. Raises RobotsForbidden, RobotsUnread if
        no server answered, and errors of ``rules_for``; NoResponse in place of Wait and Elsewhere
        after ``divert`` has ended the outcome."""
        reader = self.reader_of(fetch.asked, fetch.crawl.settings)
        reader = reader._replace(
            send_time=fetch.send_time, proxy=fetch.proxy, turn_at=fetch.turn_at
        )
        fetch.check = check = RobotsCheck(self, reader)
        try:
            response = await call_next(fetch)
        except (Wait, Elsewhere) as why:
            if divert is None:
                raise
            await divert(fetch, why)
            raise NoResponse from None
        response.robots = check.rules
        return response

    def reader_of(self, request: Request, settings: SpiderSettings) -> Reader:
        """The way that a request of a spider reads the file."""
        own = user_agent_of(request.headers, settings.headers) or settings.user_agent
        via = request.downloader or settings.downloader
        if via == BROWSER:  # the file needs none
            via = "curl"
        return Reader(own or self._settings.user_agent, via)

    async def rules_for(self, url: str, reader: Reader) -> Rules:
        try:
            return await super().rules_for(url, reader)
        except RobotsUnread as error:  # each request has its own, for its errback
            raise error.copy() from None

    async def watch(self) -> None:
        """Looks for files that were forgotten, for ever."""
        while True:
            await asyncio.sleep(WATCH_EVERY)
            if self._kept:
                self.forget_before(await self.store.forgotten())

    def forget_before(self, number: int | None) -> None:
        """Reads all files from the database again, if the number has changed."""
        if number is not None and number != self.forgotten:
            self.forgotten = number
            self._kept.clear()
            self._loading.clear()

    def _key(self, origin: str, reader: Reader) -> tuple[str, str]:
        return origin, product_token(reader.user_agent)

    async def _unknown(self, url: str, state: RobotsState, now: float) -> BaseException:
        if state.is_due(now):  # another worker reads it
            return Wait(url, RETRY_SECONDS, shortly=True)
        left = state.next_try - now
        if state.reason in SILENT:
            return RobotsUnread(origin_of(url), state.reason, state.note, left)
        await self.store.defer_for_robots(host_of(url), left)
        return Wait(url, left)

    async def _known(
        self, url: str, reader: Reader, state: RobotsState, now: float, fresh: bool
    ) -> LoadedValue[Rules]:
        """Lets the host's requests go. Those wait once more whose slot was used to read the file,
        or that came before the frontier knew the host's delay."""
        origin, host, token = origin_of(url), host_of(url), product_token(reader.user_agent)
        if state.status is not Status.RULES:
            rules = Rules(origin)
        elif len(state.text) > LARGE_FILE:
            rules = await asyncio.to_thread(Rules, origin, state.text, token)
        else:
            rules = Rules(origin, state.text, token)
        delay = min(rules.crawl_delay, self._settings.max_crawl_delay)
        opened = await self.store.open(host, state.known_until, delay, now)
        again = fresh or (opened and delay)
        left = min(RECHECK, state.known_until - now)
        return LoadedValue(rules, left, Wait(url, delay) if again else None)


class RobotsCheck:
    """Checks the URLs that are sent for one request, after the middlewares. ``rules`` are the rules
    of the last URL."""

    def __init__(self, guard: RobotsGuard, reader: Reader) -> None:
        self.rules = ALLOW_ALL
        self.reader = reader
        self._guard = guard

    async def __call__(self, url: str) -> None:
        """Raises RobotsForbidden, and errors of ``RobotsGuard.rules_for``."""
        self.rules = await self._guard.rules_for(url, self.reader)
        if self.rules.large:
            allowed = await asyncio.to_thread(self.rules.allows, url)
        else:
            allowed = self.rules.allows(url)
        if not allowed:
            token = product_token(self.reader.user_agent)
            raise RobotsForbidden(f"{origin_of(url)}/robots.txt forbids {url} to {token}")


class TdmGuard(SiteRules[tuple[str, int], TdmRules]):
    """The tdmrep.json files of all origins, for one worker, and for spiders with a purpose; a stage
    inside ``robots``, whose store and files are used. They are read like robots.txt, and after it.
    Their rows are next to its row, under the URL of the file."""

    path = tdmrep.PATH

    def __init__(self, robots: RobotsGuard) -> None:
        super().__init__(robots.store, robots.files, robots.clock, NO_TDM_RULES)
        self._robots = robots

    async def fetch(self, fetch: F, call_next: Next[F]) -> Response:
        """Checks each URL of the fetch before it is sent. Raises errors of ``rules_for``."""
        assert isinstance(fetch.check, RobotsCheck)
        fetch.check = check = TdmCheck(self, fetch.check)
        response = await call_next(fetch)
        response.reservation = check.rules.find(response.url)
        return response

    def _key(self, origin: str, reader: Reader) -> tuple[str, int]:
        return origin, self._robots.forgotten

    async def _known(
        self, url: str, reader: Reader, state: RobotsState, now: float, fresh: bool
    ) -> LoadedValue[TdmRules]:
        rules = await asyncio.to_thread(TdmRules, state.text) if state.text else NO_TDM_RULES
        left = min(RECHECK, state.known_until - now)
        return LoadedValue(rules, left, Wait(url) if fresh else None)


class TdmCheck:
    """Checks the URLs that are sent for one request, after its RobotsCheck. ``rules`` are the rules
    of the last URL."""

    def __init__(self, guard: TdmGuard, robots: RobotsCheck) -> None:
        self.rules = NO_TDM_RULES
        self._guard = guard
        self._robots = robots

    async def __call__(self, url: str) -> None:
        """Raises errors of RobotsCheck and ``TdmGuard.rules_for``."""
        await self._robots(url)
        self.rules = await self._guard.rules_for(url, self._robots.reader)
