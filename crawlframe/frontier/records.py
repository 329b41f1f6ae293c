"""What goes into the frontier's verbs and what comes out of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from crawlframe.request import Admission


class TaskLimits(NamedTuple):
    """What claim and admit need to know of a task."""

    priority: int = 0
    delay: int = 0  # milliseconds between two requests to one host
    concurrency: int = 8  # requests in flight per host
    page_limit: int = 0  # requests admitted; 0 = no limit


class Claimed(NamedTuple):
    """A request in the hands of this generation."""

    rid: bytes
    task: int
    host: str
    attempts: int  # tries that failed before
    deliveries: int  # workers that died with it before
    record: bytes


class TaskView(NamedTuple):
    """What a claim says of a task."""

    state: str
    cookies: int  # version of the task's cookies


@dataclass
class Claim:
    """The answer of one claim. ``wait``: milliseconds until more is due, 0 at once, -1 unknown."""

    wait: int
    requests: list[Claimed]
    tasks: dict[int, TaskView]


@dataclass
class Completion:
    """A request whose ledger row is committed. ``duplicates``: follow-ups dropped by the sieves."""

    rid: bytes
    task: int
    host: str
    failed: bool
    follow_ups: list[Admission] = field(default_factory=list)
    duplicates: int = 0


class Counts(NamedTuple):
    """The counters of a task, summed over partitions."""

    state: str
    na: int
    nf: int
    ne: int
    duplicates: int
    limited: int
    in_progress: int
    delayed: int
    parked: int

    @property
    def nr(self) -> int:
        return self.na - self.nf - self.ne

    @property
    def ready(self) -> int:
        return self.nr - self.in_progress - self.delayed - self.parked


class CodeState(msgspec.Struct, frozen=True):
    """Which code a node runs, and how its last reload went."""

    version: str = ""  # of the code that lives; "" until some is loaded
    state: str = "loading"  # loading, checking, live or refused
    candidate: str = ""  # the version that is being checked, or was refused
    problem: str = ""  # of the refused version, else of the live one: file:line: error, traceback
    changed_at: float = 0.0  # Unix time at which this state began
    seconds: float = 0.0  # last reload: from the last write to the first worker with the new code
    reloads: int = 0  # since the master started
    follows: str = ""  # "origin/main" for a node that pulls by itself
    pulled: str = ""  # revision (12 digits) its checkout was last brought to by a pull
    pull_problem: str = ""  # why the last pull was refused
    rollout: int = 0  # id of the announcement that the last pull answered


class NodeInfo(msgspec.Struct, frozen=True):
    """One generation as the cluster sees it. Nodes of other releases may send more or less."""

    generation: int
    node: str
    machine: str  # host name, to be read
    place: str  # boot and process namespace: where the pid means something
    pid: int
    born: float  # start time of the process, to tell it from a later one with the same pid
    workers: int
    lease_left: float  # seconds, negative when expired
    spiders: tuple[str, ...] = ()  # what it loaded; empty while it loads
    private: tuple[str, ...] = ()  # private networks that it may crawl
    code: CodeState = CodeState()
    leaving: bool = False  # it takes nothing new and ends


def fingerprint_of(rid: bytes) -> str:
    """The 64-bit fingerprint in the seen sets: the first half of the rid as a signed integer."""
    return str(int.from_bytes(rid[:8], "big", signed=True))


def entries(admissions: Iterable[Admission]) -> list[list[Any]]:
    """Admissions as the scripts read them."""
    return [[a.rid, fingerprint_of(a.rid), a.rank, a.host, a.delay, a.record] for a in admissions]
