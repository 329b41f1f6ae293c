"""Rows: one measurement each, of a load on a queue, with the checks that all was kept."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.frontier import simulated
from benchmarks.frontier.simulated import Load
from benchmarks.frontier.web import TASK, Web
from benchmarks.lab.redis import RedisServer
from crawlframe.frontier import Counts

SERIES = 50_000_000  # numbers available for the new links of one measurement
AUDITED = 200_000  # longest queue that an audit walks


class Row(NamedTuple):
    """The cost of one request: claim, look-up of known links, completion."""

    queued: int
    hosts: int
    links: int
    new: int
    batch: int
    requests: int
    rate: float  # requests per second of all workers together
    redis_us: float  # microseconds of CPU
    client_us: float  # microseconds of CPU in the calls of the frontier
    busy: float  # share of the time that Redis used its processor

    @property
    def most(self) -> float:
        """Requests per second if Redis is busy all the time."""
        return 1e6 / self.redis_us


class Queue:
    """A frontier with this many requests in it, which only grows."""

    def __init__(self, server: RedisServer, hosts: int, partitions: int = 1) -> None:
        self.server = server
        self.web = Web(hosts)
        self.length = 0
        self._series = 0
        server.client.flushall()
        self._store = simulated.Store(server.url, partitions)
        simulated.open_task(self._store)
        self._frontier = self._store.frontier()

    def grow(self, length: int) -> None:
        """Admits URLs until this many are queued; prints a line when that takes long."""
        started = time.monotonic()
        step = max(100_000, length // 10)
        while self.length < length:
            more = range(self.length, min(length, self.length + step))
            simulated.fill(self._store, self.web, more)
            self.length = more.stop
            if time.monotonic() - started > 5:
                tell(f"  queued {self.length:,} of {length:,}")

    def counts(self) -> Counts:
        counts = self._frontier.counts(TASK)
        assert counts is not None
        return counts

    def measure(self, load: Load) -> Row:
        """Raises RuntimeError when the frontier has not kept everything."""
        self._series += 1
        before = self.counts()
        cpu = self.server.cpu_seconds()
        done = simulated.work(self._store, self.web, load, self.length, self._series * SERIES)
        cpu = self.server.cpu_seconds() - cpu
        after = self.counts()
        moved = (after.na - before.na, after.nf - before.nf, after.in_progress)
        if moved != (done.requests * load.new, done.requests, 0):
            raise RuntimeError(f"counters moved by {moved} for {done.requests} requests: {load}")
        if after.nr <= AUDITED and (problems := self._frontier.audit()):
            raise RuntimeError(f"the audit found: {problems[:3]}")
        return Row(
            queued=before.nr,
            hosts=self.web.hosts,
            links=load.links,
            new=load.new,
            batch=load.batch,
            requests=done.requests,
            rate=done.requests / done.seconds,
            redis_us=cpu / done.requests * 1e6,
            client_us=done.client_cpu / done.requests * 1e6,
            busy=cpu / done.seconds,
        )


@contextmanager
def server(*options: str) -> Iterator[RedisServer]:
    """A server of its own for one table."""
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as place,
        RedisServer(Path(place), *options) as running,
    ):
        yield running


def tell(words: str) -> None:
    print(words, file=sys.stderr, flush=True)
