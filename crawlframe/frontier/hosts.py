"""Hosts: the state of each host in the frontier, and the limits of operators and robots.txt."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType
from typing import Any, NamedTuple

from crawlframe import gates
from crawlframe.errors import FrontierError
from crawlframe.frontier.client.batches import MAX_ENTRIES, chunks
from crawlframe.frontier.client.keys import Keys
from crawlframe.frontier.client.partitions import pack
from crawlframe.frontier.client.rows import StorePart
from crawlframe.proxies.place import host_in

KEYS_PER_SCAN = 1_000  # keys examined by one step of a search for hosts
MOST_DUE = 100  # hosts that are compared for the longest wait
MOST_WAITING = 100_000  # requests that are looked at to find some hosts' requests
FOREVER = 8_640_000_000_000_000  # ms, as in _shared.lua


class HostOrder(NamedTuple):
    """An operator's order for a host, for all tasks. None: the limits of each task hold.

    A delay from robots.txt still holds if it is longer."""

    delay: float | None = None  # seconds between two requests
    concurrency: int | None = None  # requests in flight
    paused: bool = False
    until: float | None = None  # seconds since the epoch at which it ends; None: never
    gates: Mapping[str, str] = MappingProxyType({})  # further rules of the gate, by name


@dataclass
class HostState:
    """A host at one instant. Instants are in seconds since the epoch, by the clock of Redis;
    durations in seconds."""

    in_flight: int = 0
    queued: int = 0  # ready requests, except for paused tasks
    next_at: float = 0.0  # the next request may go then; inf: not before an operator acts
    closed_until: float = 0.0  # the same, where more than a delay holds it; 0: it is open
    # The gate's word for the hold: refused, unreachable, blocked, asked, quota, paused, robots or
    # delay. Blocked also while one request at a time goes out after that.
    why: str = ""
    gap: float | None = None  # between two requests, at the rate found so far; None: fixed delay
    delay: float | None = None  # in force; the least one with an adaptive rate; None: no task
    concurrency: int | None = None  # in force; None: no task has ready requests
    order: HostOrder | None = None
    failures: int = 0  # in a row
    trial: bool = False  # one request at a time goes out until one is answered
    blocks: int = 0  # of the last pages
    pages: int = 0  # how many those are, up to 50; 0: none of the last was a block
    robots_until: float = 0.0  # the robots.txt is known until then
    robots_delay: float = 0.0
    robots_wait: float = 0.0  # requests that obey robots.txt wait until then; 0: they do not
    address: str = ""  # IP address of the last connection


class Hosts(StorePart):
    """The part of the frontier that concerns hosts. All methods raise redis.RedisError, and
    EraChanged when another era has begun."""

    # -- state ------------------------------------------------------------------------------------

    def states(self, names: Sequence[str]) -> dict[str, HostState]:
        """The state of each of these hosts; empty for an unknown host."""
        found: dict[str, HostState] = {}
        for partition, mine in self._store.split_small(names, lambda name: name):
            now, *rows = self._store.run("hosts", partition, pack(mine))
            for name, row in zip(mine, rows, strict=True):
                found[name] = self._state(partition, name, int(now), row)
        return {name: found[name] for name in names}

    def tasks(self, host: str, limit: int = 1_000) -> dict[int, int]:
        """The tasks that have ready requests of this host, and how many; of its first ``limit``
        lanes. Paused tasks are left out."""
        keys = self._store.keys[self._store.partition_of(host)]
        lanes = self._store.redis.zrange(keys("LANES", host), 0, limit - 1)
        pipe = self._store.redis.pipeline(transaction=False)
        for lane in lanes:
            pipe.llen(keys("LANE", f"{lane.decode(errors='replace')}:{host}"))
        found: dict[int, int] = {}
        for lane, ready in zip(lanes, pipe.execute(), strict=True):
            task = lane.partition(b":")[0]
            if task.isdigit():
                found[int(task)] = found.get(int(task), 0) + ready
        return found

    def waiting(self, names: Collection[str], paused: Iterable[int]) -> set[str] | None:
        """The hosts, among these, with requests that are not ready: delayed, parked or in progress,
        or of the ``paused`` tasks. ``states`` does not count those. None: there are too many to
        look at."""
        paused = [*paused]
        found: set[str] = set()
        for keys in self._store.keys:
            pipe = self._store.redis.pipeline(transaction=False)
            pipe.hlen(keys("OWN"))
            for task in paused:
                pipe.scard(keys("PAUSED", str(task)))
            if sum(pipe.execute()) > MOST_WAITING:
                return None
            requests = self._store.redis.hscan_iter(keys("OWN"), count=KEYS_PER_SCAN)
            lanes = (own.partition(b"|")[2] for _, own in requests)
            hidden = (
                lane
                for task in paused
                for lane in self._store.redis.sscan_iter(keys("PAUSED", str(task)))
            )
            for lane in chain(lanes, hidden):
                host = host_in(lane.decode(errors="replace").split(":", 2)[-1])
                if host in names:
                    found.add(host)
        return found

    def active(self) -> Iterator[str]:
        """The names of the hosts that Redis has state of."""
        for keys in self._store.keys:
            seen: set[bytes] = set()
            start = len(keys("HOST"))
            found = self._store.redis.scan_iter(keys.pattern("h:*"), count=KEYS_PER_SCAN)
            waiting = self._store.redis.zscan_iter(keys("HOSTS"), count=KEYS_PER_SCAN)
            for place in chain((key[start:] for key in found), (name for name, _ in waiting)):
                name = place.partition(b"|")[0]  # a place or a pair is of this host
                if name not in seen and not name.startswith(b"@"):
                    seen.add(name)
                    yield name.decode(errors="replace")

    def held(self) -> dict[str, tuple[str, float]]:
        """Hosts that an operator should know of: why, and until when (seconds since the epoch; inf:
        until they are resumed): parked because they block, paused by an order, or asking for a wait
        of more than an hour."""
        found: dict[str, tuple[str, float]] = {}
        for partition, keys in enumerate(self._store.keys):
            rows = self._store.redis.zrange(keys("HELD_HOSTS"), 0, -1, withscores=True)
            until = {name.decode(errors="replace"): score for name, score in rows}
            for chunk in chunks([*until], MAX_ENTRIES):
                now, *states = self._store.run("hosts", partition, pack(chunk))
                for name, row in zip(chunk, states, strict=True):
                    state = self._state(partition, name, int(now), row)
                    if state.why == "blocked" or until[name] > int(now):
                        found[name] = (state.why, _seconds(until[name]))
        return found

    def longest_due(self) -> tuple[str, float] | None:
        """The host that has been due for the longest time without being served, and for how many
        seconds; None: none is due. Only open hosts of the first MOST_DUE."""
        oldest: tuple[str, float] | None = None
        for partition, keys in enumerate(self._store.keys):
            due = self._store.redis.zrange(keys("HOSTS"), 0, MOST_DUE - 1, withscores=True)
            if not due:
                continue
            names = [self._one_of(keys, name.decode(errors="replace")) for name, _ in due]
            now, *rows = self._store.run("hosts", partition, pack(names))
            for name, (_, since), row in zip(names, due, rows, strict=True):
                waited = (int(now) - since) / 1000
                if waited > 0 and int(row[2]) <= int(now):
                    if oldest is None or waited > oldest[1]:
                        oldest = host_in(name), waited
                    break
        return oldest

    def _one_of(self, keys: Keys, name: str) -> str:
        """A host; for an address, the first of its hosts that waits."""
        if not name.startswith("@"):
            return name
        first = self._store.redis.zrange(keys("WAITING", name[1:]), 0, 0)
        return first[0].decode(errors="replace") if first else name

    def _state(self, partition: int, name: str, now: int, row: list[Any]) -> HostState:
        flat, queued, till, why, delay, concurrency, gap = row
        till = int(till)
        fields = dict(zip(flat[::2], flat[1::2], strict=True))

        def number(field: str, default: float = 0.0) -> float:
            value = fields.get(field.encode())
            if value is None:
                return default
            return self._rows.read_row(
                "HOST", field.encode(), value, lambda _, text: float(text), default, name, partition
            )

        order = None
        ends = number("ou", FOREVER)
        if ends > now and not fields.keys().isdisjoint({b"od", b"oc", b"op", b"og"}):
            order = HostOrder(
                number("od") / 1000 if b"od" in fields else None,
                round(number("oc")) if b"oc" in fields else None,
                b"op" in fields,
                None if ends >= FOREVER else ends / 1000,
            )
        limits = order or HostOrder()
        why, pages = why.decode(), fields.get(b"b", b"")
        closed = why not in ("", "delay")
        if not closed and b"p" in fields and fields.get(b"why") == b"blocked":
            why = "blocked"  # until a request is answered
        robots_delay, wait = number("rd") / 1000, number("rw")
        if gap is None and delay is None and limits.delay is None and b"g" in fields:
            gap = number("g")
        in_force = limits.delay if delay is None else delay / 1000
        return HostState(
            in_flight=max(0, round(number("a"))),
            queued=int(queued),
            next_at=_seconds(max(number("n"), till)),
            closed_until=_seconds(till) if closed else 0.0,
            why=why,
            gap=None if gap is None else max(float(gap) / 1000, robots_delay),
            delay=None if in_force is None else max(in_force, robots_delay),
            concurrency=limits.concurrency if concurrency is None else concurrency,
            order=order,
            failures=round(number("f")),
            trial=b"p" in fields,
            blocks=pages.count(b"1"),
            pages=len(pages),
            robots_until=number("ro") / 1000,
            robots_delay=robots_delay,
            robots_wait=wait / 1000 if wait > now else 0.0,
            address=fields.get(b"ip", b"").decode(errors="replace"),
        )

    # -- control ----------------------------------------------------------------------------------

    def order(self, host: str, order: HostOrder) -> None:
        """From now on this order holds for the host, in place of an earlier one. Raises
        FrontierError if it says nothing, or something impossible."""
        limits = order.delay, order.concurrency, order.paused or None, order.gates or None
        if not any(limit is not None for limit in limits):
            raise FrontierError(
                f"the order for {host} says nothing; give a delay or a concurrency, or pause it"
            )
        if order.delay is not None and not 0 <= order.delay < math.inf:
            raise FrontierError(f"the delay of {host} must be a number of seconds from 0")
        if order.concurrency is not None and order.concurrency < 1:
            raise FrontierError(f"the concurrency of {host} must be at least 1; or pause the host")
        fields: list[str] = []
        if order.delay is not None:
            fields += ["od", str(round(1000 * order.delay))]
        if order.concurrency is not None:
            fields += ["oc", str(order.concurrency)]
        if order.paused:
            fields += ["op", "1"]
        if order.gates:
            fields += ["og", gates.encode(order.gates)]
        if order.until is not None:
            fields += ["ou", str(round(1000 * order.until))]
        self._run("order", host, pack(fields))

    def clear_order(self, host: str) -> None:
        """Removes an order: the limits of each task hold again; a paused host continues."""
        self._run("order", host, pack([]))

    def resume(self, host: str) -> None:
        """Ends the rest of a host, parked or not, and forgets its failures and blocks. An order
        stays."""
        self._run("resume", host)

    def robots(
        self, host: str, known_until: float = 0.0, delay: float = 0.0, wait: float = 0.0
    ) -> None:
        """Sets the state of the robots.txt of a host, for tasks that obey it. ``known_until``:
        seconds since the epoch; from then on, or with 0, one request at a time goes out, which
        should ask again. ``delay``: the least seconds between two requests. ``wait``: seconds from
        now without requests."""
        until = 0
        if wait > 0:  # by the clock of Redis, which counts
            (now,) = self._store.run("hosts", self._store.partition_of(host), pack([]))
            until = int(now) + _ms(wait)
        self._run("robots", host, _ms(known_until), _ms(delay), until)

    def open_robots(self, host: str, known_until: float, delay: float, now: float) -> bool:
        """As ``robots``, for a robots.txt that was read; the first request goes after ``delay``. Of
        several files of the host, of http and https or for several crawlers, the strictest delay
        holds. ``now``: seconds since the epoch. Returns whether that is new."""
        state = self.states([host])[host]
        if state.robots_until > now or not state.robots_until:  # or another file cannot be read
            delay = max(delay, state.robots_delay)
            known_until = max(known_until, state.robots_until)
            if delay <= state.robots_delay and known_until - state.robots_until < 1:
                return False
        self.robots(host, known_until, delay, wait=delay)
        return True

    def hold_robots(self, host: str, wait: float, *, known: bool = False) -> None:
        """As ``robots``, for a robots.txt that cannot be read for ``wait`` seconds. A delay that
        another file of the host asks for, http's or https's, stays; with ``known`` everything
        does."""
        state = self.states([host])[host]
        self.robots(host, state.robots_until if known else 0.0, state.robots_delay, wait)

    def forget_robots(self, hosts: Sequence[str]) -> None:
        """The robots.txt of these hosts is asked for again, and workers look again at the
        database's state of any."""
        for host in hosts:
            self.robots(host)
        self._store.redis.incr(self._store.keys[0]("FORGOTTEN"))

    def robots_forgotten(self) -> int:
        """The number of calls of ``forget_robots``."""
        value = self._store.redis.get(self._store.keys[0]("FORGOTTEN")) or b""
        return int(value) if value.isdigit() else 0

    def _run(self, verb: str, host: str, *args: Any) -> None:
        self._store.run(verb, self._store.partition_of(host), host, *args)


def _ms(seconds: float) -> int:
    return round(1000 * min(max(0.0, seconds), FOREVER / 1000))


def _seconds(ms: float) -> float:
    return math.inf if ms >= FOREVER else ms / 1000
