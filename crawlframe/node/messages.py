"""Messages: everything that a master and its children send each other, and the lines they use.

A message is sent as an array: its tag, then its fields in the order of the class. A master and its
children share one version of the code, so these messages may change freely; messages to and from a
supervisor (supervisor_messages.py) may not."""

from __future__ import annotations

import socket

from msgspec.msgpack import Decoder

from crawlframe.frontier.client.records import Claimed, Signal, TaskView
from crawlframe.node.channel import Channel, pair
from crawlframe.node.supervisor_messages import LoadedCode, Message, Migrations
from crawlframe.spider.spider import SpiderInfo

# -- master -> worker, steward --------------------------------------------------------------------


class Run(Message, tag="run"):
    """Master to worker: fetch these requests and run their callbacks. ``tasks`` has the state of
    each of their tasks."""

    requests: list[Claimed]
    tasks: dict[int, TaskView]


class SlowCallback(Message, tag="slow"):
    """Worker to master: this callback is slow, because it computes or because it waits. Master to
    all workers of the same code: run it in a thread."""

    task: int
    callback: str
    computes: bool


class KeepOnly(Message, tag="keep"):
    """Master to worker: callbacks hold you up. Finish these requests and end; others have taken
    over the rest."""

    rids: list[bytes]


class Retire(Message, tag="retire"):
    """Master to worker or steward: take nothing new, finish the work in progress, and end."""


class CheckRecorded(Message, tag="check"):
    """Master to checker: replay the recorded pages of these spiders; or carry out a trial."""

    spiders: list[str]
    trial: str = ""  # the id of its order
    live: str = ""  # the live version
    tried: list[str] | None = []  # as in CodeLoaded


class ServePages(Message, tag="serve"):
    """Master to checker of the live version: run the pages that the checker of the new one sends
    down the line between the two."""


ToChild = Run | SlowCallback | KeepOnly | Retire | CheckRecorded | ServePages


# -- worker, steward -> master --------------------------------------------------------------------


class WorkerReady(Message, tag="worker ready"):
    """Worker to master: it has ``credits`` free slots for requests."""

    credits: int


class WorkerReport(Message, tag="report"):
    """Worker to master: this many more slots are free, the fetches of these (rid, number of the
    claim, signal) are over, these rids are settled, and these ``spaced`` requests (rid, number of
    the claim, time.monotonic()) were sent."""

    credits: int
    fetched: list[tuple[bytes, int, Signal]]
    settled: list[bytes]
    sent: list[tuple[bytes, int, float]] = []


class Beat(Message, tag="beat"):
    """Child to master, every second: it is alive, and uses ``memory`` bytes. ``stuck``: a parser
    does not end. See NodeHealth."""

    memory: int
    waits: str
    failures: int = 0
    stuck: bool = False


class ServiceReady(Message, tag="service ready"):
    """Steward, or keeper of the browser, to master: it does its work."""


# -- template -> master ---------------------------------------------------------------------------


class GitBusy(Message, tag="git busy"):
    """Template to master: it waits for git to finish changing files. A sign of life."""


class LoadingVersion(Message, tag="version"):
    """Template to master: it starts to load this version."""

    version: str


class ImportingModule(Message, tag="module"):
    """Template to master: it starts to import this module; "" when it has imported the last."""

    module: str


class Unsteady(Message, tag="unsteady"):
    """Template to master: the code changed while it was loaded, or git is about to change it. The
    template ends, unless it was started to accept the code as it is."""

    problem: str


class LoadAll(Message, tag="load all"):
    """Template to master: the modules that it has from an earlier version cannot be used, for this
    reason; it ends."""

    reason: str


class CodeLoaded(Message, tag="loaded"):
    """Template to master: it has loaded this code, and workers can be forked from it."""

    tree: str  # the directory of the spiders
    version: str
    digest: str  # of the spiders' tree and the files that belong to it
    revision: str  # 40 digits; "" without git
    infos: list[SpiderInfo]
    broken: dict[str, str]  # module -> file:line: error, traceback
    files: list[str]  # outside the spiders' tree
    unfit: str = ""  # why no worker can run, whatever the spiders are
    checks: dict[str, str] = {}  # spider with check = "recorded" -> digest of its code
    item_classes: bool = False  # whether items other than dicts may come
    renewable: bool = False  # whether a template can be forked that imports only what changes
    # Spiders whose code is not that of the template before, and which have kept pages; None: those
    # are unknown, because everything was imported.
    tried: list[str] | None = []

    @property
    def summary(self) -> LoadedCode:
        """The part that the supervisor needs."""
        return LoadedCode(self.digest, self.revision, self.tree, self.files, [*self.broken])


# -- checker -> master ----------------------------------------------------------------------------


class CheckingPage(Message, tag="checking"):
    """Checker to master: it starts to replay this page, by its name; of a ``kept`` one, by its
    URL."""

    spider: str
    page: str
    kept: bool = False


class Checked(Message, tag="checked"):
    """Checker to master: it has replayed all. ``problems``: of the spiders that fail."""

    problems: dict[str, str]


FromTemplate = GitBusy | LoadingVersion | ImportingModule | Unsteady | LoadAll | CodeLoaded
FromWorker = WorkerReady | WorkerReport | SlowCallback | Beat
FromService = ServiceReady | Migrations | Beat
FromChecker = CheckingPage | Checked
FromChild = FromTemplate | FromWorker | FromService | FromChecker


# -- lines ----------------------------------------------------------------------------------------

_TO_CHILD: Decoder[ToChild] = Decoder(ToChild)
_FROM_CHILD: Decoder[FromChild] = Decoder(FromChild)

ToChildLine = Channel[ToChild, FromChild]  # the master's end
FromChildLine = Channel[FromChild, ToChild]  # the child's end


def child_line() -> tuple[ToChildLine, FromChildLine]:
    """The master's end and the child's."""
    return pair(_FROM_CHILD, _TO_CHILD)


def from_child(sock: socket.socket) -> FromChildLine:
    """A child's end, from a socket passed to it."""
    return Channel(sock, _TO_CHILD)
