"""RobotsGuard: asks the robots.txt of an origin before anything of it is fetched.

One worker of the cluster reads the file, in the slot of the request that came first; that request
then goes back to the head of its lane, because the page has to pay the host's delay. If the file
redirects, the request follows it from host to host (``SiteFiles``). It is
read without the spider's middlewares: what one spider sends or changes must not decide what all
others may fetch."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from crawlframe.conf import Settings
from crawlframe.downloaders import BROWSER
from crawlframe.errors import RobotsForbidden, RobotsUnread
from crawlframe.fetch.downloader import Downloader
from crawlframe.fetch.send_time import SendTime
from crawlframe.links import host_of
from crawlframe.node.worker.robots.loading_cache import Loaded, LoadingCache
from crawlframe.node.worker.robots.site_files import (
    LEASE,
    MAX_CACHED,
    RECHECK,
    SHORTLY,
    SiteFiles,
    Wait,
    once,
)
from crawlframe.node.worker.robots.store import RobotsStore
from crawlframe.proxies.proxy import Proxy
from crawlframe.record import Errand
from crawlframe.request import Request
from crawlframe.robots.reading import PATH
from crawlframe.robots.rules import ALLOW_ALL, LARGE, Rules, origin_of
from crawlframe.robots.state import MAX_ORIGIN, SILENT, RobotsState, Status
from crawlframe.robots.token import product_token, user_agent_of
from crawlframe.spider_settings import SpiderSettings

WATCH_EVERY = 1.0  # seconds between two looks for files that were forgotten


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
        self.store = store
        self.clock = clock
        self.files = SiteFiles(settings, downloader, store, clock)
        self._cache: LoadingCache[tuple[str, str], Rules] = LoadingCache(MAX_CACHED, clock)
        self.forgotten = -1

    def check_for(
        self,
        request: Request,
        settings: SpiderSettings,
        send_time: SendTime | None = None,
        proxy: Proxy | None = None,
        *,
        in_place: bool = False,
    ) -> RobotsCheck:
        """Returns the check of the URLs that are sent for a request. ``send_time``, ``proxy`` and
        ``in_place``: as in ``SiteFiles.read``."""
        own = user_agent_of(request.headers, settings.headers) or settings.user_agent
        via = request.downloader or settings.downloader
        if via == BROWSER:  # the file needs none
            via = "curl"
        agent = own or self._settings.user_agent
        return RobotsCheck(self, agent, via, send_time, in_place, proxy)

    async def rules_for(
        self,
        url: str,
        user_agent: str,
        via: str,
        send_time: SendTime | None = None,
        proxy: Proxy | None = None,
        *,
        in_place: bool = False,
    ) -> Rules:
        """Returns the rules for a URL. Raises Wait while they are unknown; Elsewhere as
        ``SiteFiles.read`` does; RobotsUnread if nothing answered; PrivateAddress and BadUrl if no
        request may be sent there; ProxyFailed."""
        origin, token = origin_of(url), product_token(user_agent)
        if len(origin) > MAX_ORIGIN:  # no such host exists
            return ALLOW_ALL
        key = (origin, token)
        errand = Errand(origin + PATH, origin + PATH, 0, user_agent, via, host_of(url))

        async def load() -> Loaded[Rules]:
            return await self._load(url, errand, send_time, proxy, in_place)

        try:
            return await once(self._cache, key, url, load)
        except RobotsUnread as error:  # each request has its own, for its errback
            raise error.copy() from None

    async def watch(self) -> None:
        """Looks for files that were forgotten, for ever."""
        while True:
            await asyncio.sleep(WATCH_EVERY)
            if len(self._cache):
                self.forget_before(await self.store.forgotten())

    def forget_before(self, number: int | None) -> None:
        """Looks at the database again for all files, if the number differs from the last one."""
        if number is not None and number != self.forgotten:
            self.forgotten = number
            self._cache.clear()

    async def _load(
        self,
        url: str,
        errand: Errand,
        send_time: SendTime | None,
        proxy: Proxy | None,
        in_place: bool,
    ) -> Loaded[Rules]:
        origin = origin_of(url)
        turn = await self.store.turn(origin, LEASE)
        if turn.mine:
            turn = await self.files.read(errand, turn, send_time, proxy, in_place=in_place)
        state, now, fresh = turn
        if state.is_known(now):
            return await self._take(url, errand.user_agent, state, now, fresh)
        if state.is_due(now):  # another worker reads it
            raise Wait(url, SHORTLY, shortly=True)
        left = state.next_try - now
        if state.reason in SILENT:
            raise RobotsUnread(origin, state.reason, state.note, left)
        await self.store.hold(host_of(url), left)
        raise Wait(url, left)

    async def _take(
        self, url: str, user_agent: str, state: RobotsState, now: float, fresh: bool
    ) -> Loaded[Rules]:
        """Lets the host's requests go. Those wait once more whose slot was used to read the file,
        or that came before the frontier knew the host's delay."""
        origin, host, token = origin_of(url), host_of(url), product_token(user_agent)
        if state.status is not Status.RULES:
            rules = Rules(origin)
        elif len(state.text) > LARGE:
            rules = await asyncio.to_thread(Rules, origin, state.text, token)
        else:
            rules = Rules(origin, state.text, token)
        delay = min(rules.crawl_delay, self._settings.max_crawl_delay)
        opened = await self.store.open(host, state.known_until, delay, now)
        again = fresh or (opened and delay)
        left = min(RECHECK, state.known_until - now)
        return Loaded(rules, left, Wait(url, delay) if again else None)


class RobotsCheck:
    """Checks each URL that is sent for one request, after the middlewares. ``rules`` are those of
    the last one."""

    def __init__(
        self,
        guard: RobotsGuard,
        user_agent: str,
        via: str,
        send_time: SendTime | None,
        in_place: bool,
        proxy: Proxy | None = None,
    ) -> None:
        self.rules = ALLOW_ALL
        self.proxy = proxy
        self.user_agent = user_agent
        self.via = via
        self.send_time = send_time
        self.in_place = in_place
        self._guard = guard

    async def __call__(self, url: str) -> None:
        """Raises RobotsForbidden, and what ``RobotsGuard.rules_for`` raises."""
        self.rules = await self._guard.rules_for(
            *(url, self.user_agent, self.via, self.send_time, self.proxy), in_place=self.in_place
        )
        if self.rules.large:
            allowed = await asyncio.to_thread(self.rules.allows, url)
        else:
            allowed = self.rules.allows(url)
        if not allowed:
            token = product_token(self.user_agent)
            raise RobotsForbidden(f"{origin_of(url)}/robots.txt forbids {url} to {token}")
