"""Context: cookies, storage and cache of one profile in a browser, with its tabs and its way
out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Any

import msgspec
from playwright.async_api import BrowserContext, CDPSession, Error, Page

from crawlframe.fetch.browser.chromium import Chromium
from crawlframe.fetch.browser.forward_proxy import ForwardProxy
from crawlframe.fetch.browser.orders import BrowserCookie, Profile
from crawlframe.fetch.names.address_guard import AddressGuard
from crawlframe.fetch.names.resolver import Names

CLOSE_SECONDS = 3.0  # seconds for a page or context to close
LINGER_SECONDS = 0.1  # seconds for which an idle page continues
BLANK = "about:blank"
# The document of each page stops here twice: before it is sent, and before its body is read.
DOCUMENTS = [
    {"urlPattern": "*", "resourceType": "Document", "requestStage": stage}
    for stage in ("Request", "Response")
]

_Key = tuple[str, str, str]  # domain, path and name


class Tab:
    """A page, used by one order at a time. ``frame`` is the id of its main frame."""

    def __init__(self, context: Context, page: Page, cdp: CDPSession, frame: str, origin: str):
        self.context = context
        self.page = page
        self.cdp = cdp
        self.frame = frame
        self.origin = origin
        self.served = 0
        self._resting: asyncio.Task[bool] | None = None
        self._blank = False

    def rest(self) -> None:
        """Stops the page's scripts soon, so that they neither compute nor send for long. The next
        page often comes at once, and an empty page in between costs a sixth of a page."""
        self._blank = False
        self._resting = asyncio.ensure_future(self._empty())

    async def wake(self) -> bool:
        """Ends the rest. Returns whether it can be used."""
        resting, self._resting = self._resting, None
        if resting is None:
            return True
        if not self._blank:
            resting.cancel()
            return True
        return await resting

    def end(self) -> None:
        """Called before the tab is closed."""
        if self._resting is not None:
            self._resting.cancel()

    async def _empty(self) -> bool:
        await asyncio.sleep(LINGER_SECONDS)
        self._blank = True
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                # Not by CDP: Playwright would take it for an interruption of the next page.
                await self.page.goto(BLANK, wait_until="commit")
            return True
        except (Error, TimeoutError):
            return False


class Context:
    """``users``: orders that use it now. ``used``: when one did last (time.monotonic())."""

    def __init__(
        self, browser: Chromium, profile: Profile, names: Names, guard: AddressGuard
    ) -> None:
        self.browser = browser
        self.profile = profile
        self.users = 0
        self.used = time.monotonic()
        self.proxy = ForwardProxy(names, guard, profile.upstream, trackers=profile.trackers)
        self._opening = asyncio.Lock()
        self._context: BrowserContext | None = None
        self._idle: list[Tab] = []
        self._closing: set[asyncio.Task[None]] = set()
        self._cookies: dict[_Key, BrowserCookie] = {}  # as task and context had them last

    async def tab(self, origin: str) -> Tab:
        """An idle tab of this origin, or a new one. Raises playwright's Error."""
        while tab := next((one for one in self._idle if one.origin == origin), None):
            self._idle.remove(tab)
            if await tab.wake():
                return tab
            await self._close_tab(tab)
        async with self._opening:
            context = self._context or await self._open()
        page = await context.new_page()
        cdp = await context.new_cdp_session(page)
        found = await cdp.send("Page.getFrameTree")
        await cdp.send("Fetch.enable", {"patterns": DOCUMENTS})
        return Tab(self, page, cdp, found["frameTree"]["frame"]["id"], origin)

    async def give_back(self, tab: Tab, *, keep: bool) -> bool:
        """Returns False when the page could not be closed."""
        tab.served += 1
        if keep and not self.browser.ended:
            tab.rest()
            self._idle.append(tab)
            return True
        return await self._close_tab(tab)

    @property
    def idle(self) -> int:
        """The number of tabs that wait for their next page."""
        return len(self._idle)

    async def close_idle_tabs(self) -> None:
        idle, self._idle = self._idle, []
        for tab in idle:
            await self._close_tab(tab)

    async def close(self) -> None:
        """Closes it with all its pages; without effect if the browser has ended."""
        for tab in self._idle:
            tab.end()
        if self._context is not None and not self.browser.ended:
            try:
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._context.close()
            except (Error, TimeoutError):
                pass  # it ends with the browser
        await self.proxy.close()

    # -- cookies ----------------------------------------------------------------------------------

    async def put_cookies(self, cookies: Iterable[BrowserCookie]) -> None:
        """Adds the task's cookies that are new, or have a new value."""
        new = [one for one in cookies if self._cookies.get(_key(one)) != one]
        if new and self._context is not None:
            await self._context.add_cookies([msgspec.structs.asdict(one) for one in new])  # type: ignore[misc]
            self._cookies |= {_key(one): one for one in new}

    async def changed_cookies(self) -> list[tuple[str, str]]:
        """Cookies that pages have changed since the last call, as pairs: the URL that each counts
        for, and a Set-Cookie header."""
        if self._context is None:
            return []
        now = {_key(one): one for one in map(_taken, await self._context.cookies())}  # type: ignore[arg-type]
        own = {(name, value) for _, name, value in self.profile.cookies}
        changed = [
            _set_cookie(one)
            for key, one in now.items()
            if self._cookies.get(key) != one and (one.name, one.value) not in own
        ]
        for key in self._cookies.keys() - now.keys():
            gone = self._cookies[key]
            changed.append(_set_cookie(gone, gone=True))
        self._cookies = now
        return changed

    # -- opening and closing ----------------------------------------------------------------------

    async def _open(self) -> BrowserContext:
        await self.proxy.start()
        context = await self.browser.new_context(
            proxy={"server": f"http://127.0.0.1:{self.proxy.port}", "bypass": "<-loopback>"},
            user_agent=self.profile.user_agent or None,
            accept_downloads=False,
            service_workers="block",
        )
        own = [
            {"url": url, "name": name, "value": value} for url, name, value in self.profile.cookies
        ]
        if own:
            await context.add_cookies(own)  # type: ignore[arg-type]
        context.on("page", self._on_page)
        self._context = context
        return context

    def _on_page(self, page: Page) -> None:
        """Closes the windows that pages open."""

        closing = asyncio.ensure_future(_close_popup(page))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def _close_tab(self, tab: Tab) -> bool:
        tab.end()
        if self.browser.ended:
            return True
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await tab.page.close()
            return True
        except TimeoutError:
            return False
        except Error:
            return True  # it is gone


async def _close_popup(page: Page) -> None:
    try:
        if await page.opener() is not None:
            await page.close()
    except Error:
        pass  # it is gone


def _key(cookie: BrowserCookie) -> _Key:
    return cookie.domain, cookie.path, cookie.name


def _taken(cookie: dict[str, Any]) -> BrowserCookie:
    expires = cookie["expires"]  # rounded, as the task's jar keeps them
    given = cookie | {"expires": expires if expires < 0 else round(expires)}
    return msgspec.convert(given, BrowserCookie)


def _set_cookie(cookie: BrowserCookie, *, gone: bool = False) -> tuple[str, str]:
    parts = [f"{cookie.name}={cookie.value}", f"Path={cookie.path}"]
    if cookie.domain.startswith("."):
        parts.append(f"Domain={cookie.domain[1:]}")
    if cookie.secure:
        parts.append("Secure")
    if gone:
        parts.append("Max-Age=0")
    elif cookie.expires >= 0:
        parts.append(f"Max-Age={max(0, round(cookie.expires - time.time()))}")
    scheme = "https" if cookie.secure else "http"
    return f"{scheme}://{cookie.domain.lstrip('.')}{cookie.path}", "; ".join(parts)
