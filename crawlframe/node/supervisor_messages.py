"""Messages between a supervisor and its masters, and the lines that they use.

The two may be of two versions while a framework is handed over or rolled back. So on this line, and
in ``Inheritance``:

* a field is added at the end only, with a default; none is removed, moved, or given another type;
  the same holds for the structs sent inside (``CodeState``, ``Rollout``, ``InitialState``...);
* a tag is never reused for something else; a new message gets a new one;
* the receiver ignores unknown fields, uses the default for missing ones, and ignores messages
  that it does not know (``Channel.tolerant``);
* so no sender may rely on a new message being understood.

``tests/node/test_messages.py`` pins the bytes of each message. Supervisors do without the spiders'
API, so this module imports none of it."""

from __future__ import annotations

import socket

import msgspec
from msgspec.msgpack import Decoder

from crawlframe.frontier.cluster.nodes import CodeState
from crawlframe.frontier.cluster.rollouts import Rollout
from crawlframe.node.channel import Channel


class Message(msgspec.Struct, array_like=True):
    """The base class of all messages."""


# -- supervisor -> master: the other side may be of another version -------------------------------


class InitialState(msgspec.Struct, frozen=True):
    """The state of its node, for a master that starts."""

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
    """Supervisor to master, in reply to Hello: the framework has not changed since; start."""

    state: InitialState


class Preload(Message, tag="prepare"):
    """Supervisor to master: the spiders' code is changing; preload the version on disk."""

    changed_at: float  # time.monotonic()


class DropPreload(Message, tag="forget"):
    """Supervisor to master: the preloaded version will not be needed."""


class Reload(Message, tag="ask"):
    """Supervisor to master: the spiders' code has changed, is quiet, and now has this version; make
    it live."""

    changed_at: float  # time.monotonic() of the last write
    digest: str
    revision: str


class RefuseVersion(Message, tag="refuse"):
    """Supervisor to master: a master of this version could not take over; report that the version
    is refused, and continue."""

    version: str
    problem: str


class CheckoutPulled(Message, tag="pulled"):
    """Supervisor to master: the checkout was moved to this revision, or could not be; report it."""

    revision: str  # 12 digits; "" before the first pull
    problem: str  # why it is not the requested revision; "" when it is
    rollout: int  # id of the rollout that the last pull followed; 0: none


class SendCodeReport(Message, tag="report"):
    """Supervisor to master that it has adopted: send a CodeReport."""


class ReplayDead(Message, tag="replay"):
    """Supervisor to master: another master of this node died; return its requests to the queue."""


class HandOver(Message, tag="hand over"):
    """Supervisor to master: another master serves; finish requests in flight and exit with
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
    """Master to supervisor: the live code, and the result of the last change. ``loaded``: the last
    live code; None if there was none."""

    state: CodeState
    loaded: LoadedCode | None


class StillLoading(Message, tag="progress"):
    """Master to supervisor: it is alive and still loading the spiders."""


class Serving(Message, tag="serving"):
    """Master to supervisor: one of its workers is ready."""


class Migrations(Message, tag="tables"):
    """Steward to master to supervisor: the applied migrations, identified by ``mark``."""

    mark: str


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

_TO_MASTER: Decoder[ToMaster] = Decoder(ToMaster)
_FROM_MASTER: Decoder[FromMaster] = Decoder(FromMaster)

ToMasterLine = Channel[ToMaster, FromMaster]  # the supervisor's end
FromMasterLine = Channel[FromMaster, ToMaster]  # the master's end


def to_master(sock: socket.socket) -> ToMasterLine:
    """The supervisor's end."""
    return Channel(sock, _FROM_MASTER, tolerant=True)


def from_master(sock: socket.socket) -> FromMasterLine:
    """The master's end."""
    return Channel(sock, _TO_MASTER, tolerant=True)
