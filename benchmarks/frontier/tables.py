"""Tables: the loads that are measured, on which queues, and the memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from benchmarks.frontier.memory import Memory, memory
from benchmarks.frontier.rows import Queue, Row, server, tell
from benchmarks.frontier.simulated import Load
from benchmarks.lab.results import Spread

UNSAVED = ("--appendonly", "no")
QUEUE = 100_000  # requests queued unless stated otherwise
HOSTS = 1_000
PARTS = 4
LINKS, NEW = 20, 1  # one new link for each request keeps the queue as long as it is


class Size(NamedTuple):
    """The amount of measuring."""

    rounds: int
    requests: int  # of one measurement
    workers: int
    batch: int
    longest: int  # queue
    most_hosts: int


class Line(NamedTuple):
    """A line of a table: the same load in every round."""

    label: str
    rows: list[Row]

    def spread(self, of: Callable[[Row], float]) -> Spread:
        return Spread.of(map(of, self.rows))


class Case(NamedTuple):
    label: str
    queue: Queue
    links: int = LINKS
    new: int = NEW


def speed(size: Size) -> list[Line]:
    """The standard load, with Redis as it runs in production (append-only file, synced once a
    second) and without the file; cut into partitions, which share this Redis here; and with more
    new links, so that the queue grows."""
    with ExitStack() as servers:
        cases = [
            Case(
                "1 new, append-only file", servers.enter_context(_queue(QUEUE, HOSTS, options=()))
            ),
            Case(f"1 new, {PARTS} partitions", servers.enter_context(_queue(QUEUE, HOSTS, PARTS))),
        ]
        for new in (1, 2, 5, LINKS):
            queue = servers.enter_context(_queue(QUEUE, HOSTS))
            cases.append(Case(f"{new} new", queue, new=new))
        return _measured(size, cases)


def lengths(size: Size) -> tuple[list[Line], list[Memory]]:
    """Queues of ten thousand requests, ten times as many and so on, and their memory."""
    with ExitStack() as servers:
        queues = [
            servers.enter_context(_queue(length, HOSTS))
            for length in _steps(10_000, size.longest, 10)
        ]
        lines = _measured(size, [Case(f"{queue.length:,}", queue) for queue in queues])
        return lines, [memory(queue) for queue in queues]


def hosts(size: Size) -> list[Line]:
    """Queues over one host, a hundred and so on."""
    with ExitStack() as servers:
        cases = [
            Case(f"{number:,}", servers.enter_context(_queue(max(QUEUE, number), number)))
            for number in _steps(1, size.most_hosts, 100)
        ]
        return _measured(size, cases)


def links(size: Size) -> list[Line]:
    """Pages with no link to a hundred, one of them new."""
    with _queue(QUEUE + size.rounds * size.requests, HOSTS) as queue:
        numbers = (0, 5, 20, 50, 100)
        return _measured(size, [Case(str(n), queue, n, min(n, NEW)) for n in numbers])


def _measured(size: Size, cases: Sequence[Case]) -> list[Line]:
    """Measures in rounds, so that a slow moment of the machine affects all alike."""
    lines = [Line(case.label, []) for case in cases]
    for number in range(size.rounds):
        for case, line in zip(cases, lines, strict=True):
            load = Load(size.workers, size.requests, size.batch, case.links, case.new)
            row = case.queue.measure(load)
            line.rows.append(row)
            tell(f"  round {number + 1}: {case.label}: {row.redis_us:.1f} us of Redis a request")
    return lines


@contextmanager
def _queue(
    length: int, hosts: int, partitions: int = 1, options: Sequence[str] = UNSAVED
) -> Iterator[Queue]:
    """A queue on a server of its own."""
    with server(*options) as redis:
        queue = Queue(redis, hosts, partitions)
        queue.grow(length)
        yield queue


def _steps(first: int, last: int, factor: int) -> Iterator[int]:
    while first <= last:
        yield first
        first *= factor
