"""RobotsGuard: asks the robots.txt of an origin before anything of it is fetched. The file is read
without the spider's middlewares: what one spider sends or changes must not decide what all others
may fetch."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from crawlframe.base.urls import host_of
from crawlframe.conf import Settings
from crawlframe.errors import RobotsForbidden, RobotsUnread
from crawlframe.fetch.downloader import Downloader
from crawlframe.node.worker.crawl.stage import F, Next
from crawlframe.node.worker.robots.loading_cache import LoadedValue
from crawlframe.node.worker.robots.site_files import RETRY_SECONDS, SiteFiles, Wait
from crawlframe.node.worker.robots.site_rules import RECHECK, Reader, SiteRules
from crawlframe.node.worker.robots.store import RobotsStore
from crawlframe.request.downloader_names import BROWSER
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlframe.robots.reading import PATH
from crawlframe.robots.rules import ALLOW_ALL, LARGE_FILE, Rules, origin_of
from crawlframe.robots.state import SILENT, RobotsState, Status
from crawlframe.robots.token import product_token, user_agent_of
from crawlframe.spider.settings import SpiderSettings

WATCH_EVERY = 1.0  # seconds between two looks for files that were forgotten


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
        self.clock = clock
        self.forgotten = -1

    async def fetch(self, fetch: F, call_next: Next[F]) -> Response:
        """Checks each URL of the fetch before it is sent. Raises RobotsForbidden, RobotsUnread if
        nothing answered, and what ``rules_for`` raises."""
        reader = self.reader_of(fetch.asked, fetch.crawl.settings)
        reader = reader._replace(
            send_time=fetch.send_time, proxy=fetch.proxy, in_place=fetch.in_place
        )
        fetch.check = check = RobotsCheck(self, reader)
        response = await call_next(fetch)
        response.robots = check.rules
        return response

    def reader_of(self, request: Request, settings: SpiderSettings) -> Reader:
        """How a request of a spider reads the file."""
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
            if len(self._cache):
                self.forget_before(await self.store.forgotten())

    def forget_before(self, number: int | None) -> None:
        """Looks at the database again for all files, if the number differs from the last one."""
        if number is not None and number != self.forgotten:
            self.forgotten = number
            self._cache.clear()

    def _key(self, origin: str, reader: Reader) -> tuple[str, str]:
        return origin, product_token(reader.user_agent)

    async def _unknown(self, url: str, state: RobotsState, now: float) -> BaseException:
        if state.is_due(now):  # another worker reads it
            return Wait(url, RETRY_SECONDS, shortly=True)
        left = state.next_try - now
        if state.reason in SILENT:
            return RobotsUnread(origin_of(url), state.reason, state.note, left)
        await self.store.hold(host_of(url), left)
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
    """Checks the URLs that are sent for one request, after the middlewares. ``rules`` are those of
    the last one."""

    def __init__(self, guard: RobotsGuard, reader: Reader) -> None:
        self.rules = ALLOW_ALL
        self.reader = reader
        self._guard = guard

    async def __call__(self, url: str) -> None:
        """Raises RobotsForbidden, and what ``RobotsGuard.rules_for`` raises."""
        self.rules = await self._guard.rules_for(url, self.reader)
        if self.rules.large:
            allowed = await asyncio.to_thread(self.rules.allows, url)
        else:
            allowed = self.rules.allows(url)
        if not allowed:
            token = product_token(self.reader.user_agent)
            raise RobotsForbidden(f"{origin_of(url)}/robots.txt forbids {url} to {token}")
