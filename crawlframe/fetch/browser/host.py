"""BrowserHost: the process that has a node's browser, and renders pages for its workers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import uvloop

from crawlframe.conf import Settings
from crawlframe.errors import ActionFailed, BrowserLost, FetchError, FetchTimeout
from crawlframe.fetch.browser.contexts import Tab
from crawlframe.fetch.browser.orders import (
    Cancel,
    Command,
    CommandReply,
    Failed,
    FromWorker,
    Go,
    Line,
    MayGo,
    Order,
    Permission,
    Ready,
)
from crawlframe.fetch.browser.pages import Pages
from crawlframe.fetch.browser.settings import FILES
from crawlframe.fetch.browser.visit import TabVisit
from crawlframe.fetch.names.resolver import Names, load_hook

BEAT = 1.0  # seconds
KEEP_SECONDS = 300.0  # seconds that a worker may keep a page before it says go
LAST = 0.5  # seconds without a worker, after which a host ends that was asked to

log = logging.getLogger(__name__)


def run_host(settings: Settings, listener: socket.socket, beat: Callable[[], object]) -> None:
    """Serves until SIGTERM, and then until no worker is connected. ``beat`` is called every
    second."""
    files = Path(listener.getsockname()).parent / FILES
    uvloop.run(BrowserHost(settings, files).serve(listener, beat))


class BrowserHost:
    """``serve`` is its life."""

    def __init__(self, settings: Settings, files: Path) -> None:
        """``files``: a directory for files of browsers. Raises ConfigError if the resolver of the
        settings cannot be used."""
        self._names = Names(load_hook(settings.resolver))
        self._pages = Pages(settings, self._names, files)
        self._lines: set[Line[FromWorker]] = set()
        self._ending = False

    async def serve(self, listener: socket.socket, beat: Callable[[], object]) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._end)
        server = await asyncio.start_unix_server(self._accept, sock=listener)
        watch = asyncio.ensure_future(self._pages.watch())
        lonely = 0.0
        while not (self._ending and lonely >= LAST):
            beat()
            pause = LAST if self._ending else BEAT
            await asyncio.sleep(pause)
            lonely = 0.0 if self._lines else lonely + pause
            if watch.done():
                watch.result()
        watch.cancel()
        server.close()
        await self._pages.close()
        await self._names.close()

    def _end(self) -> None:
        self._ending = True

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line: Line[FromWorker] = Line(reader, writer, FromWorker)
        self._lines.add(line)
        orders: dict[int, _Running] = {}
        try:
            while True:
                match await line.receive():
                    case Order() as order:
                        running = orders[order.id] = _Running(self._pages, line, order)
                        running.start(lambda number: orders.pop(number, None))
                    case Cancel(number):
                        if found := orders.get(number):
                            found.cancel()
                    case Command() as command:
                        if found := orders.get(command.id):
                            found.obey(command)
                    case (Go(number) | Permission(number)) as message:
                        if found := orders.get(number):
                            found.hear(message)
        except (ConnectionError, OSError):
            pass
        except asyncio.CancelledError:  # the loop ends
            pass
        finally:
            self._lines.discard(line)
            for running in [*orders.values()]:
                running.cancel()
            line.close()


class _Running:
    """One order of one worker."""

    def __init__(self, pages: Pages, line: Line[FromWorker], order: Order) -> None:
        self._pages = pages
        self._line = line
        self._order = order
        self._heard: asyncio.Queue[Go | Permission] = asyncio.Queue()
        self._asking = asyncio.Lock()
        self._visit: TabVisit | None = None  # once its page is kept
        self._obeying: set[asyncio.Task[None]] = set()

    def start(self, over: Callable[[int], object]) -> None:
        """``over`` is called with the id of the order when it has ended."""
        self._task = asyncio.ensure_future(self._run())
        self._task.add_done_callback(lambda _: over(self._order.id))

    def cancel(self) -> None:
        self._task.cancel()

    def hear(self, message: Go | Permission) -> None:
        self._heard.put_nowait(message)

    def obey(self, command: Command) -> None:
        """Carries out a command, while others may be."""
        if self._visit is not None:
            task = asyncio.ensure_future(self._obey(self._visit, command))
            self._obeying.add(task)
            task.add_done_callback(self._obeying.discard)

    async def _obey(self, visit: TabVisit, command: Command) -> None:
        reply = await visit.obey(command)
        if reply is None:
            return
        try:
            await self._line.send(reply)
        except OSError:
            pass  # the worker has gone
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            why = f"what it returned cannot be sent: {error}"
            failed = CommandReply(
                command.id, command.number, None, ActionFailed.__name__, why, reply.url
            )
            with contextlib.suppress(OSError):
                await self._line.send(failed)

    async def _run(self) -> None:
        number = self._order.id
        try:
            await self._render()
        except FetchError as error:
            with contextlib.suppress(OSError):
                await self._line.send(
                    Failed(number, type(error).__name__, str(error), error.picture)
                )
        except OSError:
            pass  # the worker has gone
        except Exception as error:
            log.exception("an order failed inside the browser host: %s", self._order.url)
            with contextlib.suppress(OSError):
                await self._line.send(Failed(number, BrowserLost.__name__, repr(error)))

    async def _render(self) -> None:
        order = self._order
        origin = order.url[: order.url.find("/", 8)]
        tab = await self._pages.take(order.profile, origin)
        visit = TabVisit(tab, order, self._may_send, self._may_go)
        try:
            done = await visit.run()
            if visit.may_hold:
                self._visit, done.held = visit, True
                await self._line.send(done)
                await visit.hold()
        finally:
            # Also when this order is cancelled: the page must stop.
            await asyncio.shield(self._give_back(tab, visit))
        await self._line.send(done)

    async def _give_back(self, tab: Tab, visit: TabVisit) -> None:
        self._visit = None
        for task in self._obeying:
            task.cancel()
        try:
            await visit.close()
        finally:
            await self._pages.give_back(tab, whole=visit.whole)

    async def _may_send(self) -> float:
        """Returns when the worker says go: within how many seconds it must be done. Raises
        FetchError."""
        try:
            await self._line.send(Ready(self._order.id))
            async with asyncio.timeout(KEEP_SECONDS):
                go = await self._heard.get()
        except TimeoutError:
            raise FetchTimeout(f"{self._order.url}: its worker did not say go") from None
        except OSError:
            raise BrowserLost(f"{self._order.url}: its worker has gone") from None
        assert isinstance(go, Go)
        return go.seconds

    async def _may_go(self, url: str) -> bool:
        async with self._asking:
            await self._line.send(MayGo(self._order.id, url))
            permission = await self._heard.get()
            return isinstance(permission, Permission) and permission.given
