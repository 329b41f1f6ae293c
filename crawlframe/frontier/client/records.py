"""The arguments and results of the frontier's verbs."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from crawlframe.base.limits import HOST_PAGE_LIMIT, PAGE_LIMIT
from crawlframe.proxies.place import host_in
from crawlframe.request.request import Admission

HASHES = 10**9  # hash space of seen URLs: the last 9 digits of a fingerprint choose its bucket

# First bytes of most records, except for their fourth byte, the length of the URL; see cut().
# Entries are only added, also with a new RECORD_VERSION: Redis keeps older records.
FRONTS = [
    bytes([array, 1, 0xD9]) + scheme  # msgpack: without and with extra fields
    for array in (0x94, 0x95)
    for scheme in (b"https", b"http")
]
VERBATIM = 0xFF  # first byte of a record kept whole; a lower one is an index into FRONTS
FATAL_KILLS = 2  # kills after which a request is poison
DOUBTFUL_DEATHS = 3  # nodes that died with a request, after which it must run alone
_MARKS = {front: bytes([n]) for n, front in enumerate(FRONTS)}
_WHOLE = bytes([VERBATIM])
_NUMBER = struct.Struct(">q")  # the first half of a rid


class TaskLimits(NamedTuple):
    """The limits of a task, for claim and admit."""

    priority: int = 0
    delay: int = 0  # milliseconds between two requests to a host; if adaptive, the least
    concurrency: int = 8  # requests in flight per host
    page_limit: int = 0  # requests admitted; 0: no limit
    adaptive: bool = False  # the frontier finds the rate that each host bears
    ip_concurrency: int = 0  # requests in flight per IP address; 0: no limit
    ip_delay: int = 0  # milliseconds between two requests to an IP address
    robots: bool = False  # requests wait until the robots.txt of their host is known
    host_page_limit: int = 0  # the same per host
    workers: int = 0  # 1: all requests run in one worker
    layers: int = 0  # requests of one depth after the other, up to this one; 0: as they come
    layer: int = 0  # with layers: the first depth of a task that the frontier does not know
    gates: Mapping[str, str] = MappingProxyType({})  # further rules of the gate, by name


class Claimed(NamedTuple):
    """A request held by this generation."""

    rid: bytes
    task: int
    host: str
    attempts: int  # attempts that failed before
    deliveries: int  # nodes that died with it, and workers whose death it is blamed for
    record: bytes
    claim: int = 0  # the sequence number of the claim that returned it
    kills: int = 0  # workers whose death it is blamed for
    refusals: int = 0  # how often its host has refused it
    # The task limits requests per IP address, and the host's address is not known: to be released
    # with a signal that has it, and not fetched.
    homeless: bool = False
    # Its host or address has a delay, which counts from when it is sent: it must not be before this
    # time.monotonic(). None: there is no delay.
    due: float | None = None
    proxy: int = 0  # the proxy of the pool that it goes through; 0: none

    @property
    def alone(self) -> bool:
        """Whether it must run without others: it is blamed for the death of a worker, or nodes have
        repeatedly died with it."""
        return 0 < self.kills < FATAL_KILLS or self.deliveries - self.kills >= DOUBTFUL_DEATHS

    def poison(self, max_deliveries: int) -> str:
        """Why it must not run again; "" when it may."""
        if self.kills >= FATAL_KILLS:
            return f"it killed {self.kills} workers, the last one while it ran alone"
        if self.deliveries > max_deliveries:
            nodes = f"{self.deliveries - self.kills} nodes"
            return f"{nodes}{' and a worker' if self.kills else ''} died with this request"
        return ""

    def given_back(self, value: Any = 0, signal: Signal | tuple[()] = ()) -> GivenBack:
        """Itself as it is given back."""
        return GivenBack(self.rid, self.host, self.claim, value, signal)


# Kinds of signals.
NOTHING, ANSWERED, REFUSED, UNREACHABLE, BLOCKED, SENT, QUOTA, PROXY_FAILED, UNSENT = range(9)
NEVER_SENT = -1.0  # in place of the age of a request that does not leave
ANSWERS = (ANSWERED, QUOTA)  # of hosts that neither refuse nor block
FAULT, LOGIN = 1, 2  # ms of PROXY_FAILED: whatever the host; and its login is the reason


class Signal(NamedTuple):
    """A fetch's report about its host. It is applied once, by the verb that frees the slot; SENT
    comes before, from a fetch that has just started. UNSENT: nothing was sent, so the delay of the
    host does not count."""

    kind: int = NOTHING
    # ANSWERED: time of the fetch; REFUSED: time that the server asks for, -1 if none; SENT: age;
    # QUOTA, for an answer that allows few more requests: time until the next one; PROXY_FAILED:
    # FAULT, LOGIN, or 0 if the host may be the reason
    ms: float = 0
    address: str = ""  # the IP address that it went to, if the frontier should know of it


NO_SIGNAL = Signal()


class FreedSlot(NamedTuple):
    """A request held by this generation whose fetch is over: its host's slot is freed before the
    request is settled. With a signal of the kind SENT, its fetch has begun."""

    rid: bytes
    host: str
    claim: int  # as in Claimed: another claim fetches the same request again
    signal: Signal = NO_SIGNAL


class GivenBack(NamedTuple):
    """A request held by this generation that it gives back. It is left alone if it was given back
    before, and a later claim holds it. ``value``: as the verb needs it. ``signal``: of its fetch,
    for a slot that is freed by this."""

    rid: bytes
    host: str
    claim: int  # as in Claimed
    value: Any = 0
    signal: Signal | tuple[()] = ()


class TaskView(NamedTuple):
    """The state of a task, as a claim returns it."""

    state: str
    cookies: int  # version of the task's cookies
    pinned: bool = False  # all its requests run in one worker


@dataclass
class Claim:
    """The result of one claim. ``wait``: milliseconds until more is due, 0 at once, -1 unknown.
    ``unserved``: tasks that run in one worker, have something due and are served by no generation,
    or by this one, although it did not say so."""

    wait: int
    requests: list[Claimed]
    tasks: dict[int, TaskView]
    unserved: set[int] = field(default_factory=set)


@dataclass
class Completion:
    """A request whose ledger row is committed. ``duplicates``: follow-ups dropped by the sieves;
    ``items``: number of items in the row; ``cancelled``: it failed for no other reason;
    ``excluded``: politeness ended it; ``signal``: of its fetch; ``depth``: needed where its layer
    may be later than its task's."""

    rid: bytes
    task: int
    host: str
    failed: bool
    follow_ups: list[Admission] = field(default_factory=list)
    duplicates: int = 0
    items: int = 0
    cancelled: bool = False
    excluded: bool = False
    signal: Signal = NO_SIGNAL
    depth: int = 0


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
    items: int = 0
    cancelled: int = 0  # part of NE that ended because the task was cancelled
    excluded: int = 0  # part of NE that politeness ended, such as a rule of robots.txt
    host_limited: int = 0  # links that the limit per host refused
    beyond: int = 0  # of a task that is crawled in layers: pending requests of later layers

    @property
    def nr(self) -> int:
        return self.na - self.nf - self.ne

    @property
    def errors(self) -> int:
        return self.ne - self.cancelled - self.excluded

    @property
    def refused(self) -> dict[str, int]:
        """The links that limits refused at admission, by limit. With several partitions, links from
        a page to hosts of other partitions are not counted."""
        found = {PAGE_LIMIT: self.limited, HOST_PAGE_LIMIT: self.host_limited}
        return {limit: links for limit, links in found.items() if links}

    @property
    def ready(self) -> int:
        return self.nr - self.in_progress - self.delayed - self.parked

    @property
    def may_be_last(self) -> bool:
        """Whether one request is left, and is delayed: it may be the last request of the task."""
        return self.nr == self.delayed == 1

    @property
    def waits(self) -> bool:
        """Whether there is something to claim, and nothing in progress."""
        return self.ready > self.beyond and self.in_progress == 0


def fingerprints(rids: list[bytes]) -> tuple[list[str], list[int]]:
    """The 64-bit fingerprints in the seen sets: the first halves of the rids as signed integers, as
    text; and the hash of each, its last 9 digits, which chooses the bucket."""
    numbers = struct.unpack(f">{2 * len(rids)}q", b"".join(rids))[::2]
    return list(map(str, numbers)), [abs(number) % HASHES for number in numbers]


def groups(admissions: list[Admission]) -> list[list[Any]]:
    """Admissions as the scripts read them: in order, neighbours' common values sent once."""
    groups: list[list[Any]] = []
    flat: list[Any] = []
    last_host, last_rank, last_delay, name = None, 0, 0, b""
    for rid, rank, host, delay, record in admissions:
        if host != last_host or rank != last_rank or delay != last_delay:
            last_host, last_rank, last_delay = host, rank, delay
            name, flat = _name(host), []
            groups.append([f"{rank}:{host}", delay, flat])
        (number,) = _NUMBER.unpack_from(rid)
        flat += (rid, str(number), abs(number) % HASHES, cut(record, name))
    return groups


def cut(record: bytes, name: bytes) -> bytes:
    """A record as Redis keeps it. Most start with the same few bytes and the host's name, which is
    in the name of their lane: one byte replaces them.

    Others are kept whole, behind VERBATIM where their first byte would be ambiguous."""
    before, found, after = record.partition(name)
    if found and (mark := _MARKS.get(before[:3] + before[4:])):
        return mark + before[3:4] + after
    return record if len(FRONTS) <= ord(record[:1] or b"\0") < VERBATIM else _WHOLE + record


def kept_in(record: bytes, host: str) -> bytes:
    """A record as Redis keeps it in a lane of this host."""
    return cut(record, _name(host))


def whole(kept: bytes, host: str) -> bytes:
    """The record that was passed to ``cut``."""
    mark = kept[0] if kept else VERBATIM
    if mark < len(FRONTS):
        front = FRONTS[mark]
        return front[:3] + kept[1:2] + front[3:] + _name(host) + kept[2:]
    return kept[1:] if mark == VERBATIM else kept


def _name(host: str) -> bytes:
    """A host name as it is encoded in records of its requests."""
    return b"://" + host_in(host).encode()
