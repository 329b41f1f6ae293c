"""Storing: the cost of claiming requests and committing their outcomes, on a real Redis and a real
PostgreSQL. The committer is the worker's own; its calls are metered."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from benchmarks.lab.postgres import Postgres
from benchmarks.lab.redis import RedisServer
from benchmarks.profile.parts import HERE, Page, Part
from benchmarks.standard.spiders.standard import Standard
from crawlframe.frontier import Frontier
from crawlframe.frontier.client.records import Claimed, TaskLimits
from crawlframe.node.worker.commit.committer import Committer
from crawlframe.node.worker.commit.participants import participants
from crawlframe.request.request import Request, root_admission
from crawlframe.run.collector import Collector
from crawlframe.run.ledger import Ledger
from crawlframe.run.link_filters import KnownFilter, LinkPage, Sieve
from crawlframe.run.outcome import Outcome

GENERATION = 1
COMMIT_SIZE = 64  # outcomes that a commit finds waiting, as in a busy worker
STEPS = {"known": "ask for known links", "commit": "transaction", "complete": "complete"}


class _Meter:
    """Another object, with the processor time of this thread in each of its methods."""

    waits = ""

    def __init__(self, what: Any) -> None:
        self._what = what
        self.seconds: dict[str, float] = defaultdict(float)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._what, name)
        if not callable(method):
            return method

        def call(*args: Any) -> Any:
            began = time.thread_time()
            try:
                return method(*args)
            finally:
                self.seconds[name] += time.thread_time() - began

        return call


def storing(
    pages: list[Page],
    ledger: Ledger,
    task: int,
    redis: RedisServer,
    postgres: Postgres,
) -> list[Part]:
    """Crawls ``pages`` without a fetch: each is claimed, its outcome made, committed, completed. It
    starts as if the start had named every page."""
    frontier, store = _Meter(Frontier.connect(redis.url, HERE)), _Meter(ledger)
    frontier.open_task(task, TaskLimits(concurrency=1 << 20), [root_admission(task)])
    settled = threading.Semaphore(0)

    def committer(sieve: Sieve) -> Committer:
        return Committer(
            HERE,
            GENERATION,
            frontier,  # type: ignore[arg-type]
            store,
            sieve,
            participants(frontier, store, sieve),  # type: ignore[arg-type]
            lambda rids: settled.release(len(rids)),
            lambda: None,
        )

    # The start names every page; the worker that is measured has still to learn that.
    (root,) = frontier.claim(GENERATION, 0, 1).requests
    first = committer(Sieve())
    first.start()
    first.put(_outcome(root, (Request.plain(page.url, "parse") for page in pages), Sieve()))
    first.close()
    first.join()
    settled.acquire()
    sieve = Sieve()
    measured = committer(sieve)
    measured.start()
    times: list[float] = []  # of the commit thread, before and after
    measured.call(lambda: times.append(time.thread_time()))
    frontier.seconds.clear()
    store.seconds.clear()
    servers = redis.cpu_seconds(), postgres.cpu_seconds()
    by_url, spider = {page.url: page for page in pages}, Standard()
    sequence = done = 0
    while done < len(pages):
        sequence += 1
        claimed = frontier.claim(GENERATION, sequence, min(COMMIT_SIZE, len(pages) - done)).requests
        for request in claimed:
            page = by_url[Request.decode(request.record).url]
            measured.put(_outcome(request, spider.parse(page.response()), sieve))
        for _ in claimed:
            settled.acquire()
        done += len(claimed)
    measured.call(lambda: times.append(time.thread_time()))
    measured.close()
    measured.join()
    micros = {name: 1e6 * seconds / len(pages) for name, seconds in frontier.seconds.items()}
    micros |= {name: 1e6 * seconds / len(pages) for name, seconds in store.seconds.items()}
    steps = [Part("commit thread", told, micros[name]) for name, told in STEPS.items()]
    rest = 1e6 * (times[1] - times[0]) / len(pages) - sum(step.micros for step in steps)
    return [
        Part("master", "claim", micros["claim"]),
        *steps,
        Part("commit thread", "the rest", rest),
        Part("Redis", "all", 1e6 * (redis.cpu_seconds() - servers[0]) / len(pages)),
        Part("PostgreSQL", "all", 1e6 * (postgres.cpu_seconds() - servers[1]) / len(pages)),
    ]


def _outcome(request: Claimed, things: Iterable[Any], sieve: Sieve) -> Outcome:
    outcome = Outcome(
        *request[:3], request.record, request.attempts, request.deliveries,
        Request.decode(request.record).url, "parse", 1,
    )  # fmt: skip
    outcome.fetch.status, outcome.fetch.size, outcome.fetch.fetch_ms = 200, 20_000, 10
    known = sieve.of(request.task)
    collector = Collector(LinkPage(outcome, depth=1, known=known), [KnownFilter()])
    for thing in things:
        collector.take(thing)
    return outcome
