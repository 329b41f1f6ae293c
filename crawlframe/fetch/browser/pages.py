"""Pages: assigns orders to pages and browsers, and renews contexts and browsers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Coroutine
from pathlib import Path

from playwright.async_api import Error

from crawlframe.conf import Settings
from crawlframe.errors import BrowserLost
from crawlframe.fetch.browser.chromium import Chromium, allowed_memory
from crawlframe.fetch.browser.contexts import Context, Tab
from crawlframe.fetch.browser.orders import Profile
from crawlframe.fetch.browser.settings import find_browser
from crawlframe.fetch.names.address_guard import AddressGuard
from crawlframe.fetch.names.resolver import Names

MAX_CONTEXTS = 32  # kept without a page that renders
IDLE_SECONDS = 120.0  # seconds after which a context without one is closed
MAX_SERVED = 2000  # pages of a browser
MAX_AGE = 3600.0  # seconds of a browser
TAB_SERVES = 100  # pages that one tab renders
OPEN_SECONDS = 20.0  # seconds for opening a page, before its browser counts as lost
LOOK_EVERY = 2.0  # seconds between two looks at the memory
MEMORY_SHARE = 0.8  # of the memory, from which idle pages are closed

log = logging.getLogger(__name__)


class Pages:
    """At most ``browser_pages`` render at a time; orders get their turn in the order of arrival.
    Above ``browser_memory`` only one does, idle pages are closed, and the browser is renewed."""

    def __init__(self, settings: Settings, names: Names, directory: Path) -> None:
        """``directory``: for the files of browsers."""
        self._settings = settings
        self._names = names
        self._directory = directory
        self._guard = AddressGuard(settings.allow_private)
        self._limit = allowed_memory(settings.browser_memory << 20)
        self._browser: Chromium | None = None
        self._starting = asyncio.Lock()
        self._old: list[Chromium] = []  # they end with their last page
        self._contexts: dict[tuple[int, Profile], Context] = {}  # least recently used first
        self._closing: set[asyncio.Task[None]] = set()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self.running = 0
        self.memory = 0  # bytes, at the last look

    # -- one page ---------------------------------------------------------------------------------

    async def take(self, profile: Profile, origin: str) -> Tab:
        """A tab for one page of this origin, as soon as there is room. Give it back. Raises
        NoBrowser and BrowserLost."""
        await self._turn()
        try:
            browser = await self._current()
            key = id(browser), profile
            context = self._contexts.pop(key, None)
            if context is None:
                context = Context(browser, profile, self._names, self._guard)
            self._contexts[key] = context
            context.users += 1
            try:
                async with asyncio.timeout(OPEN_SECONDS):
                    return await context.tab(origin)
            except BaseException as error:
                if isinstance(error, TimeoutError):
                    browser.lost.set()  # pages that render in it end, too
                self._leave(context)
                raise
        except BaseException as error:
            self._end_turn()
            if isinstance(error, TimeoutError):
                raise BrowserLost(f"no page could be opened within {OPEN_SECONDS:g} s") from None
            if isinstance(error, Error):
                why = str(error).split("\n", 1)[0]
                raise BrowserLost(f"no page could be opened: {why}") from None
            raise

    async def give_back(self, tab: Tab, *, whole: bool) -> None:
        """Takes a tab back. ``whole``: it is intact, so that it may be used again."""
        context = tab.context
        try:
            keep = whole and tab.served < TAB_SERVES and context.browser is self._browser
            if not await context.give_back(tab, keep=keep):
                log.warning("a page did not close; its browser is renewed")
                self._retire(context.browser)
        finally:
            context.browser.served += 1
            self._leave(context)
            self._end_turn()

    def _leave(self, context: Context) -> None:
        context.users -= 1
        context.used = time.monotonic()
        tabs = sum(one.idle for one in self._contexts.values())
        for one in self._contexts.values():  # those used longest ago first
            if tabs <= self._settings.browser_pages:
                break
            tabs -= one.idle
            self._in_background(one.close_idle_tabs())
        idle = [one for one in self._contexts.values() if not one.users]
        for one in idle[: max(0, len(idle) - MAX_CONTEXTS)]:
            self._close_context(one)
        self._end_old()

    async def _turn(self) -> None:
        if not self._waiting and self._has_room():
            self.running += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._end_turn()
            else:
                with contextlib.suppress(ValueError):
                    self._waiting.remove(turn)
            raise

    def _end_turn(self) -> None:
        self.running -= 1
        self._call_next()

    def _call_next(self) -> None:
        while self._waiting and self._has_room():
            turn = self._waiting.popleft()
            if not turn.done():
                self.running += 1
                turn.set_result(None)

    def _has_room(self) -> bool:
        return self.running < (self._settings.browser_pages if self.memory < self._limit else 1)

    # -- browsers ---------------------------------------------------------------------------------

    async def _current(self) -> Chromium:
        async with self._starting:
            browser = self._browser
            if browser is not None and (
                browser.ended
                or browser.served >= MAX_SERVED
                or time.monotonic() - browser.born > MAX_AGE
            ):
                self._retire(browser)
            if self._browser is None:
                self._browser = await Chromium.start(find_browser(self._settings), self._directory)
            return self._browser

    def _retire(self, browser: Chromium) -> None:
        """Assigns it no further pages; it is closed with its last page."""
        if browser is self._browser:
            self._browser = None
            self._old.append(browser)
            self._end_old()

    def _end_old(self) -> None:
        for browser in [*self._old]:
            mine = [one for one in self._contexts.values() if one.browser is browser]
            if browser.ended or not any(one.users for one in mine):
                self._old.remove(browser)
                for context in mine:
                    self._close_context(context)
                self._in_background(browser.close())

    def _close_context(self, context: Context) -> None:
        self._contexts.pop((id(context.browser), context.profile), None)
        self._in_background(context.close())

    def _in_background(self, closing: Coroutine[object, object, None]) -> None:
        task = asyncio.ensure_future(closing)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    # -- upkeep -----------------------------------------------------------------------------------

    async def watch(self) -> None:
        """Looks at memory and idle contexts, until it is cancelled."""
        while True:
            await asyncio.sleep(LOOK_EVERY)
            browsers = [*self._old, *([self._browser] if self._browser else [])]
            sizes = await asyncio.to_thread(lambda them: [one.memory for one in them], browsers)
            self.memory = sum(sizes)
            self._look(time.monotonic())
            self._call_next()

    def _look(self, now: float) -> None:
        for context in [one for one in self._contexts.values() if not one.users]:
            if now - context.used > IDLE_SECONDS:
                self._close_context(context)
        if self.memory < MEMORY_SHARE * self._limit:
            return
        for context in [*self._contexts.values()]:
            if context.users:
                self._in_background(context.close_idle_tabs())
            else:
                self._close_context(context)
        if self.memory >= self._limit and self._browser is not None and not self._old:
            log.info("the browser uses %d MiB and is renewed", self.memory >> 20)
            self._retire(self._browser)

    async def close(self) -> None:
        """Ends everything."""
        browsers = [*self._old, *([self._browser] if self._browser else [])]
        await asyncio.gather(*(one.close() for one in browsers), return_exceptions=True)
        contexts = [*self._contexts.values()]
        await asyncio.gather(*(one.close() for one in contexts), return_exceptions=True)
        await asyncio.gather(*self._closing, return_exceptions=True)
