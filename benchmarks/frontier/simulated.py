"""Simulated: worker processes that claim, look up and complete like real ones, but fetch
nothing."""

from __future__ import annotations

import multiprocessing
import random
import signal
import time
from collections.abc import Iterator
from itertools import count
from multiprocessing.connection import Connection
from typing import NamedTuple

from benchmarks.frontier.web import TASK, Web
from crawlframe.conf import Settings
from crawlframe.frontier import Completion, Frontier, TaskLimits
from crawlframe.request.request import Admission

POOL = 40_000  # links to known pages, drawn once by each worker
FILLERS = 2  # processes that fill a queue
FILL_CHUNK = 10_000  # URLs that one filling process makes at a time
FORK = multiprocessing.get_context("fork")
UNLIMITED = TaskLimits(concurrency=1_000_000)


_generations = count(1)  # a claim's number must be new for its generation


class Store(NamedTuple):
    """The address of the frontier."""

    url: str
    partitions: int

    def frontier(self) -> Frontier:
        """A frontier on a fresh connection."""
        return Frontier.connect(self.url, Settings(partitions=self.partitions))


class Load(NamedTuple):
    """The work of the workers."""

    workers: int
    requests: int  # by all together
    batch: int  # requests per claim, look-up and completion
    links: int  # on each page
    new: int  # how many of them are in no queue yet


class Work(NamedTuple):
    """The cost of that, over all workers."""

    seconds: float
    client_cpu: float  # seconds in the calls of the frontier
    requests: int


def open_task(store: Store) -> None:
    store.frontier().open_task(TASK, UNLIMITED, [])


def fill(store: Store, web: Web, numbers: range) -> None:
    """Admits the URLs of these numbers."""
    parts = [
        (store, web, numbers[at : at + FILL_CHUNK]) for at in range(0, len(numbers), FILL_CHUNK)
    ]
    with FORK.Pool(FILLERS, _dies_quietly) as pool:
        for _ in pool.imap_unordered(_admit, parts):
            pass


def work(store: Store, web: Web, load: Load, known: int, fresh: int) -> Work:
    """Runs the load on a queue of the URLs below ``known``; new links have the numbers from
    ``fresh`` on. Raises RuntimeError when a worker fails."""
    each = load.requests // load.workers
    lines, processes = [], []
    for index in range(load.workers):
        mine, theirs = FORK.Pipe()
        first = fresh + index * each * load.new
        target = _Worker(store, web, load, each, known, first, next(_generations))
        process = FORK.Process(target=target.run, args=(theirs,), daemon=True)
        process.start()
        theirs.close()
        lines.append(mine)
        processes.append(process)
    try:
        for line in lines:
            line.recv()  # it is ready
        started = time.monotonic()
        for line in lines:
            line.send("go")
        cpu = [line.recv() for line in lines]
        seconds = time.monotonic() - started
    except EOFError:
        raise RuntimeError("a simulated worker failed; its error is above") from None
    finally:
        for process in processes:
            process.join(10)
            process.kill()
    return Work(seconds, sum(cpu), each * load.workers)


def _dies_quietly() -> None:
    """Leaves Ctrl-C and SIGTERM of a child to its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _admit(part: tuple[Store, Web, range]) -> None:
    store, web, numbers = part
    store.frontier().admit(TASK, web.admissions(numbers))


class _Worker(NamedTuple):
    store: Store
    web: Web
    load: Load
    requests: int
    known: int
    first: int
    generation: int

    def run(self, line: Connection) -> None:
        _dies_quietly()
        pages = self._pages()
        line.send("ready")
        line.recv()
        line.send(self._crawl(self.store.frontier(), pages))

    def _crawl(self, frontier: Frontier, pages: Iterator[list[Admission]]) -> float:
        """Returns the CPU seconds in the calls of the frontier."""
        spent, left, sequence = 0.0, self.requests, 0
        while left:
            sequence += 1
            started = time.thread_time()
            claim = frontier.claim(self.generation, sequence, min(self.load.batch, left))
            spent += time.thread_time() - started
            if not claim.requests:
                raise RuntimeError("the queue has nothing left for a simulated worker")
            left -= len(claim.requests)
            found = [next(pages) for _ in claim.requests]
            asked = [
                (request.task, links) for request, links in zip(claim.requests, found, strict=True)
            ]
            started = time.thread_time()
            answers = frontier.known(asked) if self.load.links else [[] for _ in found]
            spent += time.thread_time() - started
            completions = [
                Completion(
                    request.rid,
                    request.task,
                    request.host,
                    False,
                    [link for link, old in zip(links, known, strict=True) if not old],
                    sum(known),
                )
                for request, links, known in zip(claim.requests, found, answers, strict=True)
            ]
            started = time.thread_time()
            frontier.complete(completions)
            spent += time.thread_time() - started
        return spent

    def _pages(self) -> Iterator[list[Admission]]:
        """The links of each page. They are made before the clock runs: a worker's parser does that,
        not the frontier."""
        dice = random.Random(self.generation)
        new = self.web.admissions(range(self.first, self.first + self.requests * self.load.new))
        old = self.load.links - self.load.new
        pool = self.web.admissions(dice.choices(range(self.known), k=POOL if old else 0))
        places = [dice.randrange(POOL - old) for _ in range(self.requests)]
        return (
            pool[place : place + old] + new[n * self.load.new : (n + 1) * self.load.new]
            for n, place in enumerate(places)
        )
