"""BrowserClient: fetches through the browser host of the node, or through one of its own."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from multidict import CIMultiDict

from crawlframe.actions import keeps_page
from crawlframe.base.exact_json import loads
from crawlframe.base.stats import RUNNING
from crawlframe.conf import Settings
from crawlframe.errors import BadUrl, BrowserLost, PageOpen
from crawlframe.fetch.browser import failures
from crawlframe.fetch.browser.held_page import Heard, HeldPage, take_cookies
from crawlframe.fetch.browser.orders import (
    BrowserCookie,
    Cancel,
    Done,
    Failed,
    FromHost,
    Go,
    Line,
    MayGo,
    Order,
    Permission,
    Profile,
    Ready,
)
from crawlframe.fetch.browser.settings import HostDirectory, find_browser, variables_of
from crawlframe.fetch.journey.journey import Answer, Journey
from crawlframe.fetch.journey.proxied import check_answer
from crawlframe.fetch.journey.set_cookie import Cookie
from crawlframe.request.request import Request
from crawlframe.response.browser_response import Captured
from crawlframe.spider.settings import SpiderSettings

METHODS = ("GET", "POST")
PROGRAM = "crawlframe.node.master.browser_process"
QUEUE = 600.0  # seconds that an order may wait for a page
LATE_SECONDS = 15.0  # seconds after the timeout, at which the host counts as stuck
CONNECT = 20.0  # seconds until a host of one's own listens
# The browser sends its own; the user agent belongs to its profile.
_OWN = frozenset({"accept-encoding", "cookie", "user-agent", "host"})


class BrowserClient:
    """The orders of one process. ``path`` is the socket of the node's host; None: it starts one,
    which ends with ``close`` or with this process."""

    def __init__(self, settings: Settings, path: Path | None = None) -> None:
        self._settings = settings
        self._path = path
        self._own: _OwnHost | None = None
        self._line: Line[FromHost] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._connecting = asyncio.Lock()
        self._numbers = itertools.count(1)
        self._orders: dict[int, Heard] = {}
        self._held: set[HeldPage] = set()

    async def transfer(
        self,
        journey: Journey,
        request: Request,
        settings: SpiderSettings,
        owner: str = "",
        accept: str = "",
    ) -> Answer:
        """One transfer of a journey, without redirects to other documents. ``owner``: the task,
        whose requests share cookies and storage. ``accept``: a header that browsers send in their
        own way."""
        if journey.method not in METHODS:
            raise BadUrl(f"{journey.where}: a browser sends GET and POST, not {journey.method}")
        order = self._order(journey, request, settings, owner, accept)
        journey.account.release()  # the page of a transfer before this one
        self._check_pages(journey)
        line = await self._connected()
        heard: Heard = asyncio.Queue()
        self._orders[order.id] = heard
        held: HeldPage | None = None
        done = False
        try:
            began = time.monotonic()
            await line.send(order)
            await self._ready(heard, journey)
            journey.exclude(time.monotonic() - began)
            await journey.wait_to_send()
            seconds = journey.remaining()
            journey.send_time.sent()
            await line.send(Go(order.id, seconds))
            answer = await self._answer(line, heard, journey, seconds)
            if answer.held:
                held = self._hold(line, heard, order, answer, journey)
            done = True
        except OSError as error:
            raise BrowserLost(f"{journey.where}: {error}") from None
        finally:
            if held is None:
                del self._orders[order.id]
            if not done:
                with contextlib.suppress(OSError):
                    await line.send(Cancel(order.id))
        take_cookies(journey, answer.cookies)
        await journey.account.reserve(len(answer.body))
        headers = CIMultiDict(answer.headers)
        rendered = answer.rendered
        rendered.captured = [
            Captured(one.url, one.status, loads(one.data)) for one in rendered.captured
        ]  # JSON on the way: msgpack has no integers beyond 64 bits
        found = Answer(
            *(answer.status, headers, answer.body, answer.address, answer.url, rendered),
            held=held,
        )
        check_answer(found, journey)
        return found

    async def close(self) -> None:
        """Ends all orders."""
        for held in [*self._held]:
            held.release()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        if self._line is not None:
            self._line.close()
            self._line = None
        if self._own is not None:
            await asyncio.to_thread(self._own.end)
            self._own = None

    # -- an order ---------------------------------------------------------------------------------

    def _order(
        self,
        journey: Journey,
        request: Request,
        settings: SpiderSettings,
        owner: str,
        accept: str,
    ) -> Order:
        given = journey.headers_to_send()
        headers = [
            (name, value)
            for name, value in given
            if name.lower() not in _OWN and (name.lower(), value) != ("accept", accept)
        ]
        agent = next((value for name, value in given if name.lower() == "user-agent"), "")
        own = tuple((journey.url, name, value) for name, value in journey.cookies.items())
        jar = journey.jar
        cookies = None
        if jar is not None:
            cookies = [_sent(one) for one in jar.related(journey.url, journey.session)]
        block = settings.browser.block
        return Order(
            id=next(self._numbers),
            profile=Profile(owner, journey.session, agent, journey.proxy, "trackers" in block, own),
            url=journey.url,
            method=journey.method,
            body=journey.body,
            headers=headers,
            cookies=cookies,
            timeout=journey.limits.timeout,
            max_body=journey.limits.max_body,
            block=[*block],
            settle=settings.browser.settle,
            follow=journey.limits.follow,
            actions=[*(request.options.actions or ())],
            picture=settings.browser.failure_pictures,
            fragment=request.fragment,
            hold=self._settings.deadline if keeps_page(request.options.actions) else 0,
        )

    def _hold(
        self, line: Line[FromHost], heard: Heard, order: Order, answer: Done, journey: Journey
    ) -> HeldPage:
        """The page of a request whose fetch is over, until its account is closed."""

        def ended() -> None:
            self._orders.pop(order.id, None)
            self._held.discard(held)

        held = HeldPage(line, heard, order.id, answer.url, journey, ended)
        self._held.add(held)
        journey.account.hold(held.release)
        return held

    def _check_pages(self, journey: Journey) -> None:
        running = RUNNING.get(None)
        if running is not None and any(one.owner is running for one in self._held):
            raise PageOpen(
                f"{journey.where}: its callback holds a page of the browser already; end that with "
                "`await page.close()`, or yield a request for this one"
            )

    async def _ready(self, heard: Heard, journey: Journey) -> None:
        try:
            async with asyncio.timeout(QUEUE):
                message = await _next(heard)
        except TimeoutError:
            raise journey.timeout(f"no page of the browser was free for {QUEUE:g} s") from None
        if isinstance(message, Failed):
            raise failures.made(message.kind, message.message)
        assert isinstance(message, Ready)

    async def _answer(
        self, line: Line[FromHost], heard: Heard, journey: Journey, seconds: float
    ) -> Done:
        try:
            async with asyncio.timeout(seconds + LATE_SECONDS):
                while True:
                    match await _next(heard):
                        case Done() as done:
                            return done
                        case Failed(_, kind, message, picture):
                            error = failures.made(kind, message)
                            error.picture = picture
                            raise error
                        case MayGo(number, url):
                            await journey.lead(url)
                            await line.send(Permission(number, given=True))
        except TimeoutError:
            raise journey.timeout("the browser process does not answer") from None

    # -- the connection ---------------------------------------------------------------------------

    async def _connected(self) -> Line[FromHost]:
        async with self._connecting:
            if self._line is None:
                try:
                    self._line = await self._connect()
                except OSError as error:
                    raise BrowserLost(f"the browser process cannot be reached: {error}") from None
                self._reading = asyncio.ensure_future(self._read(self._line))
            return self._line

    async def _connect(self) -> Line[FromHost]:
        if self._path is not None:
            return Line(*await asyncio.open_unix_connection(str(self._path)), FromHost)
        find_browser(self._settings)
        if self._own is None or not self._own.runs:
            self._own = _OwnHost(self._settings)
        until = time.monotonic() + CONNECT
        while True:
            try:
                return Line(*await asyncio.open_unix_connection(str(self._own.path)), FromHost)
            except OSError:
                if time.monotonic() > until or not self._own.runs:
                    raise
            await asyncio.sleep(0.05)

    async def _read(self, line: Line[FromHost]) -> None:
        try:
            while True:
                message = await line.receive()
                if heard := self._orders.get(message.id):
                    heard.put_nowait(message)
        except OSError:
            self._line = None
            line.close()
            for heard in self._orders.values():
                heard.put_nowait(None)


class _OwnHost:
    """A browser host for this process only, which is no node."""

    def __init__(self, settings: Settings) -> None:
        self._directory = HostDirectory()
        self.path = self._directory.socket
        given = json.dumps(variables_of(settings))
        self._process = subprocess.Popen(
            [sys.executable, "-m", PROGRAM, str(self.path), given],
            stdin=subprocess.PIPE,
            # It finds the modules that this process finds, from any directory.
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

    @property
    def runs(self) -> bool:
        return self._process.poll() is None

    def end(self) -> None:
        """Closes the host's input; then it ends with all its processes."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()
        self._directory.remove()


async def _next(heard: Heard) -> FromHost:
    """Raises ConnectionError."""
    message = await heard.get()
    if message is None:
        raise ConnectionError("the browser process ended")
    return message


def _sent(cookie: Cookie) -> BrowserCookie:
    domain = cookie.domain.rpartition("/")[2]  # in a session, its name is before it
    expires = -1 if cookie.expires is None else float(cookie.expires)
    return BrowserCookie(
        cookie.name, cookie.value or "", domain, cookie.path, cookie.secure, expires
    )
