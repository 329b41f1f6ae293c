"""FetchContext: the parts of a fetch that belong neither to its request nor to its settings."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import NamedTuple

from crawlframe.fetch.body.memory import Account
from crawlframe.fetch.journey.cookies import TaskCookies
from crawlframe.fetch.journey.trail import Check, Trail
from crawlframe.proxies.proxy import ChosenProxy
from crawlframe.spider.spider import Spider

TurnAt = Callable[[str], AbstractAsyncContextManager[object]]
TICK = 0.001  # seconds: the resolution of the event loop's timers, which may fire that much early


class SendTime:
    """The send time of a request. ``due``: time.monotonic() before which it must not be sent; None:
    at once. ``report`` is called whenever it is sent. ``clock`` returns seconds. ``spent``: it was
    sent once. ``turn_at``: the turn of a further document, to which a page leads, at the host of
    its URL; None: it needs none."""

    __slots__ = ("_clock", "_due", "_report", "_started", "_waited", "spent", "turn_at")

    def __init__(
        self,
        due: float | None = None,
        report: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.put_off(due, report)
        self.turn_at: TurnAt | None = None
        self._waited = 0.0
        self._clock = clock
        self._started = clock()

    def put_off(self, due: float | None, report: Callable[[], None]) -> None:
        """The next request has another time, and its own report."""
        self._due, self._report = due, report
        self.spent = False

    def sent(self) -> None:
        """Call it in the event loop whenever the request is sent."""
        self.spent = True
        self._report()

    async def wait(self) -> float:
        """Waits until the request may be sent, and returns no earlier. Returns for how many
        seconds; a downloader calls it when nothing but the connection is missing."""
        if self._due is None:
            return 0.0
        began = self._clock()
        while (left := self._due - time.monotonic()) > 0:
            await asyncio.sleep(max(TICK, left))
        waited = self._clock() - began
        self._waited += waited
        return waited

    async def go_on(self, url: str) -> None:
        """Waits until a page may go on to a URL, as if it were sent at once then."""
        if self.turn_at is not None:
            async with self.turn_at(url):
                await self.wait()
                self.sent()

    def elapsed(self) -> float:
        """Seconds since this was made, without the wait."""
        return self._clock() - self._started - self._waited


class FetchLimits(NamedTuple):
    """Caps on one fetch; times in seconds; ``timeout`` includes the redirects that the
    fetch follows."""

    timeout: float = 30.0
    max_body: int = 32 << 20  # bytes, as sent and after decompression
    max_redirects: int = 10
    connect: float = 15.0  # to open one connection, including the TLS handshake
    stall: float = 60.0  # without progress; shorter than a long ``timeout``
    follow: bool = True  # redirects; if False, the redirecting response is returned


@dataclass(slots=True, eq=False)
class FetchContext:
    """``spider`` may have a method ``requests_session`` for the requests downloader. ``jar``: the
    task's cookies; without the setting ``cookies``, only a request with a session uses them.
    ``allowed`` decides about the host names of redirects. ``account`` counts the body of the
    response until its owner closes it; without one it counts until the fetch is over. ``check`` is
    awaited with each URL before it is sent, also of redirects. ``trail``: the request is for the
    target of its last redirect. ``send_time``: of the transfers. ``rid``: leads the next attempt to
    the saved part of a file. ``proxy``: of the transfers."""

    spider: Spider | None = None
    jar: TaskCookies | None = None
    allowed: Callable[[str], bool] | None = None
    account: Account | None = None
    check: Check | None = None
    trail: Trail | None = None
    send_time: SendTime | None = None
    rid: bytes = b""
    proxy: ChosenProxy | None = None

    def counted_by(self, account: Account) -> FetchContext:
        """A copy with this account; dataclasses.replace takes six times as long."""
        return FetchContext(
            *(self.spider, self.jar, self.allowed, account, self.check, self.trail),
            *(self.send_time, self.rid, self.proxy),
        )


NO_CONTEXT = FetchContext()
