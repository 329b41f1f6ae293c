"""Side: the processes of one version of the code. A loader imports it once, and forks workers that
try pages; a worker that a page has killed, or that hangs, is forked again."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from msgspec.msgpack import Decoder

from crawlframe.base.exact_json import dumps
from crawlframe.code.imports import marks
from crawlframe.code.registry import Registry
from crawlframe.conf import Settings
from crawlframe.errors import CrawlframeError
from crawlframe.load_spiders import load_spiders
from crawlframe.node.channel import Channel, ChannelClosed, pair
from crawlframe.node.child_process import adopt_orphans, become_child
from crawlframe.node.master import offspring
from crawlframe.node.signals import describe_exit
from crawlframe.node.supervisor_messages import Message
from crawlframe.pages.reparse import SourcePage
from crawlframe.preview.comparison import Place, Tried
from crawlframe.preview.tree import Tree
from crawlframe.recorded.folder import Recording
from crawlframe.recorded.isolation import without_effects
from crawlframe.recorded.kept import KeptTrial
from crawlframe.recorded.replay import RecordingReplay
from crawlframe.request.request import Request

ORDER = struct.Struct("!I")  # pid of a worker that is replaced, 0 for none
ANSWER = struct.Struct("!Ii")  # pid of the new worker, exit code of the replaced one
MAX_SKIPS = 5  # modules that may kill the process that imports them
MAX_TRIALS = 100  # tasks whose spider a worker holds


class PreviewFailed(CrawlframeError):
    """A version cannot be previewed at all."""


@dataclass(frozen=True)
class Surroundings:
    """What the service gives to the processes of a side. ``guard``: around all code of authors.
    ``reveal``: the arguments of a task, as its spider gets them. ``kept``: names of packages that
    are not imported again."""

    guard: Callable[[], AbstractContextManager[None]]
    reveal: Callable[[dict[str, Any]], dict[str, Any]]
    kept: Collection[str] = ()


class Loading(Message, tag="loading"):
    """Loader: it imports this module."""

    module: str


class Loaded(Message, tag="loaded"):
    """Loader: ``marks`` of its spiders, which change with their code; ``modules`` that do not load,
    with the reasons."""

    marks: dict[str, str]
    modules: dict[str, str]


class NotLoadable(Message, tag="refused"):
    """Loader: it cannot load anything."""

    problem: str


class TryPage(Message, tag="try"):
    """To a worker: run the callback of this kept page. ``arguments``: of its task, as stored."""

    number: int
    spider: str
    arguments: dict[str, Any]
    page: SourcePage

    @property
    def place(self) -> Place:
        return Place(self.page.url, self.page.number)

    @property
    def size(self) -> int:
        """Bytes that are sent."""
        return len(self.page.body)


class TryRecorded(Message, tag="recorded"):
    """To a worker: replay the recorded page of this name, in a folder of recorded pages."""

    number: int
    spider: str
    folder: str
    name: str
    url: str
    size: int = 0

    @property
    def place(self) -> Place:
        return Place(self.url)


Order = TryPage | TryRecorded


class TellMarks(Message, tag="marks"):
    """To a worker: answer with Marks."""


class Marks(Message, tag="marks"):
    """Worker: the marks of its spiders, which change with the modules that they import, and that of
    all files that are no modules; "" if that is unknown, as of a Scrapy project."""

    marks: dict[str, str]
    data: str


class PageTried(Message, tag="tried"):
    """Worker: the result of a page, as Tried has it."""

    number: int
    snapshot: bytes
    seconds: float
    problem: str = ""

    @property
    def result(self) -> Tried:
        return Tried(self.snapshot, self.seconds, self.problem)


_FROM_LOADER: Decoder[Loading | Loaded | NotLoadable] = Decoder(Loading | Loaded | NotLoadable)
TO_WORKER: Decoder[Order | TellMarks] = Decoder(Order | TellMarks)
FROM_WORKER: Decoder[PageTried | Marks] = Decoder(PageTried | Marks)
_NOTHING: Decoder[Any] = Decoder()

ToParent = Channel[PageTried | Marks, Order | TellMarks]
ToWorker = Channel[Order | TellMarks, PageTried | Marks]


@dataclass
class Side:
    """The parent's view of one version. Used as a context, at whose end all processes are killed.
    ``loaded``: after ``wait``."""

    tree: Tree
    project: Path
    settings: Settings
    around: Surroundings
    loaded: Loaded = field(default_factory=lambda: Loaded({}, {}))
    _skip: dict[str, str] = field(default_factory=dict)
    _pid: int = 0

    def __enter__(self) -> Side:
        self._spawn()
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def wait(self) -> None:
        """Returns when the code is loaded. A module that kills its process is left out. Raises
        PreviewFailed."""
        while True:
            module = ""
            try:
                for message in received(self._channel):
                    match message:
                        case Loading(module):
                            pass
                        case NotLoadable(problem):
                            raise PreviewFailed(f"{self.tree.name}: {problem}")
                        case Loaded():
                            self.loaded = message
                            return
            except ChannelClosed:
                code = self._end()
            if not module or len(self._skip) == MAX_SKIPS:
                raise PreviewFailed(
                    f"{self.tree.name} does not load: the import of {module or 'its code'} ended "
                    f"its process ({describe_exit(code)})"
                )
            self._skip[module] = f"{module}: its import ended the process ({describe_exit(code)})"
            self._spawn()

    @property
    def problems(self) -> list[str]:
        """A line for each module that does not load."""
        lines = (problem.partition("\n")[0] for problem in self.loaded.modules.values())
        here = f"{self.tree.copy}{os.sep}"
        return [line.replace(here, "") for line in lines]

    def fork(self, replaced: int = 0) -> tuple[int, ToWorker, str]:
        """Returns the pid of a new worker, its channel, and how the worker with the pid
        ``replaced`` has ended; it is killed if it has not. Raises PreviewFailed."""
        ours, theirs = pair(FROM_WORKER, TO_WORKER)
        try:
            socket.send_fds(self._orders, [ORDER.pack(replaced)], [theirs.fileno()])
            answer = self._orders.recv(ANSWER.size)
        except OSError:
            answer = b""
        finally:
            theirs.close()
        if len(answer) < ANSWER.size:
            ours.close()
            raise PreviewFailed(f"{self.tree.name}: its loader has ended")
        pid, code = ANSWER.unpack(answer)
        return pid, ours, describe_exit(code) if replaced else ""

    def _spawn(self) -> None:
        self._orders, orders = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._channel, channel = pair(_FROM_LOADER, _NOTHING)
        parent = os.getpid()
        sys.stdout.flush()
        sys.stderr.flush()
        self._pid = os.fork()
        if self._pid == 0:
            self._orders.close()
            self._channel.close()
            loader = _Loader(self, channel, orders)
            become_child("preview", parent, lambda: loader.run(self._skip))
        orders.close()
        channel.close()

    def _end(self) -> int:
        """Kills the loader, its workers, and the processes that the code has started. Returns the
        exit code of the loader."""
        pid, self._pid = self._pid, 0
        if not pid:
            return 0
        self._orders.close()
        self._channel.close()
        started = offspring.of(pid)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        offspring.kill(started)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@dataclass
class _Loader:
    """The process that has loaded the code."""

    side: Side
    channel: Channel[Any, Any]
    orders: socket.socket

    def run(self, skip: dict[str, str]) -> None:
        _silence()
        adopt_orphans()  # of what the code starts, so that it ends with this process
        side = self.side
        try:
            side.tree.enter(side.project, side.around.kept)
            settings = side.tree.settings(side.settings)
            with side.around.guard():
                registry = load_spiders(
                    settings, skip=skip, limit=settings.load_timeout, loading=self._tell
                )
                found = marks(registry, registry.spiders)
        except CrawlframeError as error:
            self.channel.send_all(NotLoadable(str(error)))
            return
        self.channel.send_all(Loaded(found, registry.broken))
        gc.freeze()  # its objects stay shared with the workers
        self._obey(settings, registry)

    def _tell(self, module: str) -> None:
        self.channel.send_all(Loading(module))

    def _obey(self, settings: Settings, registry: Registry) -> None:
        """Forks workers until there is nobody to give orders."""
        while True:
            order, files, _, _ = socket.recv_fds(self.orders, ORDER.size, 1)
            if not files:
                return
            (replaced,) = ORDER.unpack(order)
            code = _reaped(replaced) if replaced else 0
            loader = os.getpid()
            pid = os.fork()
            if pid == 0:
                self.orders.close()
                self.channel.close()
                line: ToParent = Channel(socket.socket(fileno=files[0]), TO_WORKER)
                worker = PageWorker(settings, registry, self.side.around)
                become_child("preview", loader, partial(worker.serve, line))
            os.close(files[0])
            self.orders.send(ANSWER.pack(pid, code))


@dataclass
class PageWorker:
    """Tries pages, in a process that has loaded the code."""

    settings: Settings
    registry: Registry
    around: Surroundings
    # By spider, and task or folder; the oldest ones are dropped.
    pages: dict[tuple[str, int | str], KeptTrial | RecordingReplay] = field(default_factory=dict)

    @cached_property
    def loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.new_event_loop()

    def serve(self, channel: ToParent) -> None:
        """Tries pages until there is nobody to ask for it."""
        with self.around.guard(), suppress(ChannelClosed):
            for order in received(channel):
                if isinstance(order, TellMarks):
                    channel.send_all(self.marks())
                else:
                    channel.send_all(self.tried(order))

    def marks(self) -> Marks:
        return Marks(marks(self.registry, self.registry.spiders), self.registry.data)

    def tried(self, order: Order) -> PageTried:
        try:
            match order, self._pages_of(order):
                case TryPage(), KeptTrial() as trial:
                    request = Request.decode(order.page.record)
                    response = order.page.response(request)
                    clock = _Clock()
                    found = trial.run(request, response)
                case TryRecorded(), RecordingReplay() as replay:
                    clock = _Clock()
                    with without_effects():
                        found = replay.run(order.name).snapshot
            return PageTried(order.number, dumps(found), clock.seconds)
        except CrawlframeError as error:
            return PageTried(order.number, b"", 0.0, str(error) or type(error).__name__)

    def _pages_of(self, order: Order) -> KeptTrial | RecordingReplay:
        """Raises CrawlframeError."""
        key = order.spider, order.page.task if isinstance(order, TryPage) else order.folder
        if key not in self.pages:
            while len(self.pages) >= MAX_TRIALS:
                del self.pages[next(iter(self.pages))]
            kind = self.registry.get(order.spider)
            if isinstance(order, TryPage):
                arguments = self.around.reveal(order.arguments)
                self.pages[key] = KeptTrial(kind, arguments, self.settings, self.loop)
            else:
                recording = Recording.read(Path(order.folder))
                self.pages[key] = RecordingReplay(recording, kind, self.settings)
        return self.pages[key]


class _Clock:
    """The time since it was made: seconds of CPU, since other processes may hold up this one; but
    all seconds if the code has waited for something."""

    def __init__(self) -> None:
        self._began = self._now()

    @staticmethod
    def _now() -> tuple[float, float, int]:
        waits = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
        return time.process_time(), time.perf_counter(), waits

    @property
    def seconds(self) -> float:
        cpu, wall, waits = (now - then for now, then in zip(self._now(), self._began, strict=True))
        return wall if waits else cpu


def _silence() -> None:
    """Leaves the terminal to the report: authors print and log."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.close(nowhere)
    logging.disable(logging.CRITICAL)


def _reaped(pid: int) -> int:
    """Ends a worker. Returns its exit code."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    try:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except ChildProcessError:  # code of authors has waited for it
        return -signal.SIGKILL


def received(channel: Channel[Any, Any]) -> Iterator[Any]:
    """The messages as they arrive. Raises ChannelClosed."""
    while True:
        select.select([channel], [], [])
        yield from channel.receive()
