"""HeldPage: the page of one request in the browser host, as its callback's process reaches it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Iterable
from typing import Any

from crawlframe.base.stats import RUNNING
from crawlframe.base.urls import host_of
from crawlframe.errors import BrowserLost, FetchError, PageClosed
from crawlframe.fetch.browser import failures
from crawlframe.fetch.browser.orders import (
    Cancel,
    Command,
    CommandReply,
    Failed,
    FromHost,
    Line,
    MayGo,
    Permission,
)
from crawlframe.fetch.journey.journey import Journey
from crawlframe.response.live_page import Step
from crawlframe.run.outcome import Outcome

Heard = asyncio.Queue[FromHost | None]  # None: the connection has ended


class HeldPage:
    """A page, from the end of its fetch until ``release``. ``owner`` is the running request."""

    def __init__(
        self,
        line: Line[FromHost],
        heard: Heard,
        order: int,
        url: str,
        journey: Journey,
        ended: Callable[[], None],
    ) -> None:
        """``ended`` is called when it is released."""
        self.url = url
        self.closed = False
        self.owner = RUNNING.get(None)
        self._line = line
        self._order = order
        self._journey = journey
        self._ended = ended
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[CommandReply]] = {}
        self._failure: FetchError | None = None
        self._refusal: BaseException | None = None  # of a URL that the page asked for last
        self._listening = asyncio.ensure_future(self._listen(heard))
        self._sending: set[asyncio.Task[None]] = set()

    async def call(self, steps: list[Step]) -> Any:
        """Returns the result of the last step. Raises FetchError, PageClosed, and TypeError for an
        argument that is no data."""
        if self._failure is not None:
            raise self._failure
        if self.closed:
            raise PageClosed(f"{self.url}: its page is closed: it is there until its callback ends")
        number = next(self._numbers)
        waiting = self._waiting[number] = asyncio.get_running_loop().create_future()
        self._refusal = None
        try:
            await self._line.send(Command(self._order, number, steps))
            reply = await waiting
        except (ValueError, OverflowError, TypeError, RecursionError) as error:
            name = ".".join(["page", *(step[0] for step in steps)])
            raise TypeError(f"{name}: an argument cannot be sent to the browser: {error}") from None
        except OSError as error:
            raise _of_page(BrowserLost(f"{self.url}: {error}")) from None
        finally:
            del self._waiting[number]
        self.url = reply.url or self.url
        take_cookies(self._journey, reply.cookies)
        # The running request takes the changes of the cookie jar into its outcome.
        outcome = RUNNING.get(None)
        if isinstance(outcome, Outcome) and self._journey.jar is not None:
            outcome.fetch.cookies = {
                **(outcome.fetch.cookies or {}),
                **self._journey.jar.changes(),
            } or None
        if reply.kind:
            raise _of_page(failures.made(reply.kind, reply.message + self._why()))
        return reply.value

    def release(self) -> None:
        """Closes the page; calls that wait for it raise PageClosed. Again: without effect."""
        if self.closed:
            return
        self._listening.cancel()
        self._end()
        task = asyncio.ensure_future(self._cancel())
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    def _why(self) -> str:
        """Why the page may not go where the last call has led it; "" if it did not."""
        return "" if self._refusal is None else f": {self._refusal}"

    def _end(self) -> None:
        self.closed = True
        self._ended()
        for waiting in self._waiting.values():
            if not waiting.done():
                closed = PageClosed(f"{self.url}: its page was closed meanwhile")
                waiting.set_exception(self._failure or closed)

    async def _cancel(self) -> None:
        with contextlib.suppress(OSError):
            await self._line.send(Cancel(self._order))

    async def _listen(self, heard: Heard) -> None:
        while True:
            match await heard.get():
                case CommandReply() as reply:
                    waiting = self._waiting.get(reply.number)
                    if waiting is not None and not waiting.done():
                        waiting.set_result(reply)
                case MayGo(number, url):
                    given = True
                    try:
                        await self._journey.permit(url)
                    except asyncio.CancelledError:
                        raise
                    except BaseException as error:  # also that its robots.txt is not known yet
                        given, self._refusal = False, error
                    with contextlib.suppress(OSError):
                        await self._line.send(Permission(number, given))
                case Failed(_, kind, message):
                    self._fail(failures.made(kind, message))
                    return
                case None:
                    self._fail(BrowserLost(f"{self.url}: the browser process ended"))
                    return

    def _fail(self, error: FetchError) -> None:
        self._failure = _of_page(error)
        self._end()


def take_cookies(journey: Journey, cookies: Iterable[tuple[str, str]]) -> None:
    """Puts cookies that a page has changed into the jar of the task."""
    if journey.jar is not None:
        for url, cookie in cookies:
            if _related(url, journey.url):
                journey.jar.absorb(url, [cookie], journey.session)


def _related(url: str, other: str) -> bool:
    """Whether a page of ``other`` may set cookies for the host of ``url``."""
    mine, theirs = host_of(url).partition(":")[0], host_of(other).partition(":")[0]
    return mine == theirs or theirs.endswith(f".{mine}")


def _of_page(error: FetchError) -> FetchError:
    """The error, marked to be tried again like an error of a fetch."""
    error.of_page = True
    return error
