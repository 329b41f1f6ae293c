"""Simulation: nodes that claim as masters do from a real Redis, at a clock that is set, and fetch
nothing. An hour of a crawl takes a minute."""

from __future__ import annotations

import heapq
import math
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, NamedTuple
from unittest.mock import patch

from redis import Redis

from crawlframe.frontier import Claim, Claimed, Completion, Frontier, NodeInfo, TaskLimits, scripts
from crawlframe.frontier import frontier as claims
from crawlframe.frontier.affinity import Affinity, Table, slot_of
from crawlframe.frontier.partitions import PartitionedStore
from crawlframe.frontier.records import ANSWERED, Signal
from crawlframe.node.master.affinity import NodeAffinity
from crawlframe.node.master.claims import Claims
from crawlframe.node.master.deferred_calls import DeferredCalls
from crawlframe.request import Admission, make_rid, rank_of

TASK = 1
BEGINNING = 4e9  # Unix time (s) at which the clock starts: what Redis expires by its own is not due
BEAT, LEASE = 3.0, 15.0  # seconds, as by default
COMMIT_EVERY = 0.05  # seconds in which a node's results are gathered
KEEP_ALIVE = 60.0  # seconds for which an idle connection is kept
SLACK = 0.001  # seconds by which two requests of one host may be closer, as times are rounded


class Crawl(NamedTuple):
    """What is crawled. ``delay`` in seconds."""

    hosts: int
    requests: int
    delay: float
    concurrency: int  # of a host
    nodes: int
    slots: int  # requests in flight on one node


class Result(NamedTuple):
    """``loads``: requests of each node. ``preferred``: the part of the requests that the node of
    their host made. ``touched``: pairs of a node and a host that it fetched from. ``seconds``: of
    the crawl; ``most``: until nine of ten requests were made. ``claim_ms``: of a claim that
    returned requests."""

    loads: tuple[int, ...]
    preferred: float
    connections: int
    touched: int
    seconds: float
    most: float
    claims: int
    claim_ms: float
    moved: int
    close: int

    @property
    def deviation(self) -> float:
        """How far a node is from the mean at most, as a part of it."""
        mean = sum(self.loads) / len(self.loads)
        return max(abs(load - mean) for load in self.loads) / mean


class Clock:
    """In place of the module ``time`` where claims are read."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


CLOCK = Clock()


@contextmanager
def settable_clock() -> Iterator[None]:
    """The scripts read a key instead of the time, and nothing expires."""
    source = scripts.source

    def timed(verb: str) -> str:
        text = source(verb).replace("call('TIME')", "call('HMGET', 'clock', 's', 'us')")
        return re.sub(r"call\('PEXPIRE(AT)?', ", "call('EXISTS', ", text)

    with patch.object(scripts, "source", timed), patch.object(claims, "time", CLOCK):
        yield


def sizes(hosts: int, requests: int) -> list[int]:
    """Requests of each host: the n-th has 1/n of those of the first, and at least 1."""
    total = sum(1 / n for n in range(1, hosts + 1))
    return [max(1, round(requests / total / n)) for n in range(1, hosts + 1)]


class Simulation:
    """One crawl by ``mode``: off, host or domain."""

    def __init__(self, redis: Redis, crawl: Crawl, mode: str, seed: int) -> None:
        self.crawl, self.mode = crawl, mode
        self.redis: Any = redis
        self.now = 0.0
        self.set_clock()
        self.dice = random.Random(seed)
        self.store = PartitionedStore(redis)
        self.frontier = Frontier(self.store)
        self.affinity = Affinity(self.store)
        self.nodes = [Node(self, n + 1, mode) for n in range(crawl.nodes)]
        self.table: Table | None = None
        self.owners: dict[str, int] = {}
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._number = count()
        self.latency: dict[str, float] = {}
        self.last: dict[str, float] = {}  # host -> when its last request was sent
        self.connections = self.preferred = self.claims = self.moved = self.close = 0
        self.claim_seconds = 0.0
        self.left = 0

    def _admit(self) -> int:
        numbers = sizes(self.crawl.hosts, self.crawl.requests)
        hosts = [f"www.site{n}.example" for n in range(len(numbers))]
        self.dice.shuffle(hosts)
        self.latency = {host: min(2.0, self.dice.lognormvariate(-1.9, 0.6)) for host in hosts}
        limits = TaskLimits(delay=int(1000 * self.crawl.delay), concurrency=self.crawl.concurrency)
        self.frontier.open_task(TASK, limits, [])
        some = [
            Admission(make_rid(TASK, f"{host}/{n}".encode()), rank_of(0, 0, 0), host, 0, b"x")
            for host, number in zip(hosts, numbers, strict=True)
            for n in range(number)
        ]
        self.dice.shuffle(some)
        self.frontier.admit(TASK, some)
        return len(some)

    def set_clock(self) -> None:
        CLOCK.now = self.now
        micros = round(1e6 * (BEGINNING + self.now))
        self.redis.hset("clock", mapping={"s": micros // 1_000_000, "us": micros % 1_000_000})

    def at(self, when: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._events, (when, next(self._number), what))

    def run(self) -> Result:
        for node in self.nodes:
            node.begin()
        self.nodes[0].write_table()
        self.left = self._admit()
        total, most = self.left, 0.0
        while self.left:
            node = min(self.nodes, key=lambda one: one.due)
            if self._events and self._events[0][0] <= node.due:
                self.now, _, what = heapq.heappop(self._events)
                what()
            else:
                self.now = max(self.now, node.due)
                node.claim()
            if not most and self.left <= total / 10:
                most = self.now
        return Result(
            tuple(node.requests for node in self.nodes),
            self.preferred / total,
            self.connections,
            sum(len(node.pool) for node in self.nodes),
            self.now,
            most,
            self.claims,
            1000 * self.claim_seconds / max(1, self.claims),
            self.moved,
            self.close,
        )

    def owner_of(self, host: str) -> int:
        """The generation that prefers a host; 0 without a table."""
        if self.table is None:
            return 0
        if host not in self.owners:
            place = self.table.slots[slot_of(host, self.mode)]
            self.owners[host] = self.table.generations[place]
        return self.owners[host]

    def read_table(self) -> None:
        table = self.affinity.read()
        if table is not None and table != self.table:
            if self.table is not None:
                self.moved += sum(map(int.__ne__, table.slots, self.table.slots))
            self.table, self.owners = table, {}


class Held(NamedTuple):
    """In place of a worker: what it holds."""

    held: dict[bytes, Claimed]


class Node:
    """A node with one worker."""

    def __init__(self, sim: Simulation, generation: int, mode: str) -> None:
        self.sim = sim
        self.me = NodeInfo(
            generation, f"node{generation}", "m", f"p{generation}", 1, 0.0, 1, LEASE, affinity=mode
        )
        self.affinity = NodeAffinity(mode)
        self.claims = Claims(DeferredCalls(lambda: None), "crawlframe", None, self.affinity)
        self.child: Any = Held({})
        self.free = sim.crawl.slots
        self.requests = 0
        self.done: list[Completion] = []
        self.pool: dict[str, list[float]] = {}  # host -> times since which connections are idle

    def begin(self) -> None:
        """Its lease begins a little after those of the nodes before it."""
        self.sim.frontier.leases.announce(self.me)
        self.beat()

    def write_table(self) -> None:
        """As the oldest node does when it has seen the others."""
        self.affinity.tick(self.sim.frontier, self.me)
        self.sim.read_table()
        self.sim.moved = 0

    @property
    def due(self) -> float:
        return max(self.sim.now, self.claims.due(taking=self.free > 0))

    def beat(self) -> None:
        sim = self.sim
        sim.set_clock()
        sim.frontier.leases.renew(self.me.generation, LEASE)
        self.affinity.tick(sim.frontier, self.me)
        sim.read_table()
        sim.at(sim.now + BEAT, self.beat)

    def claim(self) -> None:
        sim = self.sim
        sim.set_clock()
        started = time.perf_counter()
        made = self.claims.make(sim.frontier, self.me.generation, self.free, sim.now)
        spent = time.perf_counter() - started
        assert isinstance(made, Claim)
        if not made.requests:
            return
        sim.claims += 1
        sim.claim_seconds += spent
        self.free -= len(made.requests)
        for request in made.requests:
            self.requests += 1
            sim.preferred += sim.owner_of(request.host) == self.me.generation
            self.child.held[request.rid] = request
            if request.due is None:
                self.send(request)
            else:
                sim.at(max(sim.now, request.due), lambda request=request: self.send(request))  # type: ignore[misc]

    def send(self, request: Claimed) -> None:
        sim = self.sim
        last = sim.last.get(request.host, -math.inf)
        sim.close += sim.now - last < sim.crawl.delay - SLACK
        sim.last[request.host] = sim.now
        if request.due is not None:
            self.claims.note_sent(self.child, [(request.rid, request.claim, sim.now)], sim.now)
        idle = self.pool.setdefault(request.host, [])
        while idle and idle[0] < sim.now - KEEP_ALIVE:
            idle.pop(0)
        if idle:
            idle.pop()
        else:
            sim.connections += 1
        sim.at(sim.now + sim.latency[request.host], lambda: self.end(request))

    def end(self, request: Claimed) -> None:
        sim = self.sim
        self.pool[request.host].append(sim.now)
        signal = Signal(ANSWERED, 1000 * sim.latency[request.host])
        self.claims.end_fetches(self.child, [(request.rid, request.claim, signal)], sim.now)
        self.claims.hurry()
        self.free += 1
        if not self.done:
            sim.at(sim.now + COMMIT_EVERY, self.commit)
        self.done.append(Completion(request.rid, request.task, request.host, False, [], 0))

    def commit(self) -> None:
        sim = self.sim
        sim.set_clock()
        sim.frontier.complete(self.done)
        for one in self.done:
            self.child.held.pop(one.rid, None)
        sim.left -= len(self.done)
        self.done = []


def claim_cost(redis: Redis, mode: str, hosts: Sequence[str], n: int, rounds: int) -> float:
    """Milliseconds of a claim of n requests, of as many due hosts as there are names. Two nodes
    take turns."""
    redis.flushall()
    frontier = Frontier(PartitionedStore(redis))
    frontier.open_task(TASK, TaskLimits(concurrency=1_000_000), [])
    frontier.admit(
        TASK,
        [
            Admission(make_rid(TASK, f"{host}/{turn}".encode()), rank_of(0, 0, 0), host, 0, b"x")
            for host in hosts
            for turn in range(max(1, 3 * rounds * n // len(hosts)))
        ],
    )
    nodes = [NodeAffinity(mode), NodeAffinity(mode)]
    for turn in range(2):
        for generation, node in enumerate(nodes, 1):
            me = NodeInfo(generation, f"n{generation}", "m", "p", 1, 0.0, 1, LEASE, affinity=mode)
            frontier.leases.announce(me)
            frontier.leases.renew(generation, 600)
            if turn:
                node.tick(frontier, me)
    spent = []
    for sequence in range(1, rounds + 1):
        for generation in (1, 2):
            started = time.perf_counter()
            claim = frontier.claim(generation, sequence, n, (), None, mode != "off")
            spent.append(time.perf_counter() - started)
            assert len(claim.requests) == n
            frontier.complete(
                [Completion(one.rid, TASK, one.host, False, [], 0) for one in claim.requests]
            )
    spent.sort()
    return 1000 * spent[len(spent) // 2]
