"""Messages: everything that the processes of a node send each other, and the lines they use.

A message is sent as an array: its tag, then its fields in the order of the class.

A master and its children share one version of the code, so their messages may change freely. A
master and its supervisor may be of two versions while a framework is handed over or rolled back.
So on their line, and in ``Inheritance``:

* a field is added at the end only, with a default; none is removed, moved, or given another type;
  the same holds for the structs sent inside (``CodeState``, ``Rollout``, ``InitialState``...);
* a tag is never reused for something else; a new message gets a new one;
* the receiver ignores unknown fields, uses the default for missing ones, and ignores messages
  that it does not know (``Channel.tolerant``);
* so no sender may rely on a new message being understood.

``tests/node/test_messages.py`` pins the bytes of each message on that line.
"""

from __future__ import annotations

import socket

import msgspec
from msgspec.msgpack import Decoder

from crawlframe.frontier.client.records import Claimed, Signal, TaskView
from crawlframe.frontier.cluster.nodes import CodeState
from crawlframe.frontier.cluster.rollouts import Rollout
from crawlframe.node.channel import Channel, pair
from crawlframe.spider.spider import SpiderInfo


class Message(msgspec.Struct, array_like=True):
    """The base class of all messages."""


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
    """Master to worker or steward: take nothing new, finish what is in progress, and end."""


class CheckRecorded(Message, tag="check"):
    """Master to checker: replay the recorded pages of these spiders; or carry out a trial."""

    spiders: list[str]
    trial: str = ""  # the id of its order


ToChild = Run | SlowCallback | KeepOnly | Retire | CheckRecorded


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


class Migrations(Message, tag="tables"):
    """Steward to master to supervisor: the applied migrations, identified by ``mark``."""

    mark: str


# -- template -> master ---------------------------------------------------------------------------


class GitBusy(Message, tag="git busy"):
    """Template to master: it waits for git to finish changing files. A sign of life."""


class LoadingVersion(Message, tag="version"):
    """Template to master: it begins to load this version."""

    version: str


class ImportingModule(Message, tag="module"):
    """Template to master: it begins to import this module; "" when it has imported the last."""

    module: str


class Unsteady(Message, tag="unsteady"):
    """Template to master: the code changed while it was loaded, or git is about to change it. The
    template ends, unless it was started to accept the code as it is."""

    problem: str


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

    @property
    def summary(self) -> LoadedCode:
        """The part of it that the supervisor needs."""
        return LoadedCode(self.digest, self.revision, self.tree, self.files, [*self.broken])


# -- checker -> master ----------------------------------------------------------------------------


class CheckingPage(Message, tag="checking"):
    """Checker to master: it begins to replay this page."""

    spider: str
    page: str


class Checked(Message, tag="checked"):
    """Checker to master: it has replayed all. ``problems``: of the spiders that fail."""

    problems: dict[str, str]


FromTemplate = GitBusy | LoadingVersion | ImportingModule | Unsteady | CodeLoaded
FromWorker = WorkerReady | WorkerReport | SlowCallback | Beat
FromService = ServiceReady | Migrations | Beat
FromChecker = CheckingPage | Checked
FromChild = FromTemplate | FromWorker | FromService | FromChecker


# -- supervisor -> master: the other side may be of another version -------------------------------


class InitialState(msgspec.Struct, frozen=True):
    """The state of its node, for a master that begins."""

    beside: list[int]  # pids of masters that may run at the same time under the same node name
    broken: list[str] | None  # modules broken in the master it will replace; None: there is none
    changed_at: float  # time.monotonic() of the last write of the change that led to this master
    follows: str  # "origin/main"; "" without --follow
    pulled: str  # as in CheckoutPulled
    pull_problem: str
    answered: int  # id of the rollout that the last pull followed
    rollout: int  # id of the last rollout that was acted on
    follow_every: float = 0.0  # seconds between pulls of the tip of the branch; 0: only rollouts


class HelloReply(Message, tag="welcome"):
    """Supervisor to master, in reply to Hello: the framework has not changed since; begin."""

    state: InitialState


class Preload(Message, tag="prepare"):
    """Supervisor to master: the spiders' code is changing; preload what is on disk."""

    changed_at: float  # time.monotonic()


class DropPreload(Message, tag="forget"):
    """Supervisor to master: what was preloaded will not be needed."""


class Reload(Message, tag="ask"):
    """Supervisor to master: the spiders' code has changed, is quiet, and now has this version; make
    it live."""

    changed_at: float  # time.monotonic() of the last write
    digest: str
    revision: str


class RefuseVersion(Message, tag="refuse"):
    """Supervisor to master: a master of this version could not take over; report that the version
    is refused, and go on."""

    version: str
    problem: str


class CheckoutPulled(Message, tag="pulled"):
    """Supervisor to master: the checkout was moved to this revision, or could not be; report it."""

    revision: str  # 12 digits; "" before the first pull
    problem: str  # why it is not the one that was requested; "" when it is
    rollout: int  # id of the rollout that the last pull followed; 0: none


class SendCodeReport(Message, tag="report"):
    """Supervisor to master that it has adopted: send a CodeReport."""


class ReplayDead(Message, tag="replay"):
    """Supervisor to master: another master of this node died; give back the requests it held."""


class HandOver(Message, tag="hand over"):
    """Supervisor to master: another master serves; finish what is in flight and exit with
    HANDED_OVER."""


AboutCode = Preload | DropPreload | Reload | RefuseVersion | CheckoutPulled
ToMaster = HelloReply | AboutCode | SendCodeReport | ReplayDead | HandOver


# -- master -> supervisor: the other side may be of another version -------------------------------


class LoadedCode(msgspec.Struct, frozen=True):
    """The fields of Loaded that a supervisor compares with the disk."""

    digest: str
    revision: str
    tree: str
    files: list[str]
    broken: list[str]  # names of modules


class Hello(Message, tag="hello"):
    """Master to supervisor, as its first message: it is imported and waits for HelloReply.
    ``framework``: the paths that it has loaded, as of Code."""

    framework: list[str] = []


class CodeReport(Message, tag="code"):
    """Master to supervisor: the live code, and the result of the last change. ``loaded`` is what
    was live last; None before anything was."""

    state: CodeState
    loaded: LoadedCode | None


class StillLoading(Message, tag="progress"):
    """Master to supervisor: it is alive and still loading the spiders."""


class Serving(Message, tag="serving"):
    """Master to supervisor: one of its workers is ready."""


class RolloutAnnounced(Message, tag="rollout"):
    """Master to supervisor: this revision was announced to the node; pull it."""

    rollout: Rollout


FromMaster = Hello | CodeReport | StillLoading | Serving | Migrations | RolloutAnnounced


# -- supervisor -> its re-executed self ------------------------------------------------------------


class AdoptedMaster(msgspec.Struct, frozen=True):
    """A master that a re-executed supervisor has as its child."""

    pid: int
    fd: int  # the supervisor's end of the line
    engine: str  # digest of the framework that it runs
    framework: list[str] = []  # the paths of that digest


class Inheritance(msgspec.Struct, frozen=True):
    """Supervisor to its re-executed self: the state that it takes over; as JSON in the
    environment."""

    pulled: tuple[str, str, int]  # the fields of CheckoutPulled
    rollout: int  # id of the last rollout that was acted on
    master: AdoptedMaster = msgspec.field(name="ward")


# -- lines ----------------------------------------------------------------------------------------

_TO_CHILD: Decoder[ToChild] = Decoder(ToChild)
_FROM_CHILD: Decoder[FromChild] = Decoder(FromChild)
_TO_MASTER: Decoder[ToMaster] = Decoder(ToMaster)
_FROM_MASTER: Decoder[FromMaster] = Decoder(FromMaster)

ToChildLine = Channel[ToChild, FromChild]  # the master's end
FromChildLine = Channel[FromChild, ToChild]  # the child's end
ToMasterLine = Channel[ToMaster, FromMaster]  # the supervisor's end
FromMasterLine = Channel[FromMaster, ToMaster]  # the master's end


def child_line() -> tuple[ToChildLine, FromChildLine]:
    """The master's end and the child's."""
    return pair(_FROM_CHILD, _TO_CHILD)


def from_child(sock: socket.socket) -> FromChildLine:
    """A child's end, from a socket passed to it."""
    return Channel(sock, _TO_CHILD)


def to_master(sock: socket.socket) -> ToMasterLine:
    """The supervisor's end."""
    return Channel(sock, _FROM_MASTER, tolerant=True)


def from_master(sock: socket.socket) -> FromMasterLine:
    """The master's end."""
    return Channel(sock, _TO_MASTER, tolerant=True)
