"""Stage: a node that runs the ordinary crawl, and on which rude spiders come and go."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psycopg2

from benchmarks.blocking.times import Times
from benchmarks.lab.counted import CountedSite
from benchmarks.lab.node import NODE_TIMEOUT, Node, environment, manage, migrated
from benchmarks.lab.postgres import Postgres
from benchmarks.lab.redis import RedisServer
from benchmarks.lab.tree import Tree

LATENCY = 0.05  # seconds of the ordinary site: with 32 in flight, up to 640 pages/s
RUDE_LATENCY = 0.01
TREE = Tree(200_000)  # more pages than a crawl fetches
POLL_EVERY = 0.05  # seconds
STORED = """
SELECT extract(epoch FROM created_at)::float8 FROM crawlservice_page
WHERE task_id = %s AND status IS NOT NULL
"""
CREATED = "SELECT extract(epoch FROM created_at)::float8 FROM crawlservice_task WHERE id = %s"
STATE = "SELECT state FROM crawlservice_task WHERE id = %s"
LEFT = """
SELECT (SELECT count(*) FROM crawlservice_page WHERE state = 'error' AND reason <> 'cancelled'),
       (SELECT count(*) FROM crawlservice_page WHERE state = 'done' AND status IS NOT NULL),
       (SELECT count(*) FROM crawlservice_item),
       (SELECT count(DISTINCT rid) FROM crawlservice_item)
"""


class Scene(NamedTuple):
    """What happened to the ordinary crawl while a spider ran beside it."""

    spider: str  # "" when it was alone
    seconds: float
    rate: float  # pages per second of the ordinary crawl
    still: float  # the longest time, in seconds, in which it stored no page
    rude: float  # pages per second of the other spider
    cpu: float  # processors that the node used on average
    curve: list[tuple[float, float]]  # seconds, pages per second of the ordinary crawl


class Stage:
    """Created by ``stage``."""

    def __init__(self, node: Node, dsn: str, rude_url: str, env: dict[str, str]) -> None:
        self._node = node
        self._dsn = dsn
        self._rude_url = rude_url
        self._env = env
        self._ordinary = 0  # the task

    def begin(self, url: str) -> None:
        """Starts the ordinary crawl, and waits until it is at its speed."""
        self._ordinary = self._node.submit("ordinary", url=url)
        time.sleep(3)

    def scene(self, spider: str, duration: float, pause: float) -> Scene:
        """Runs a spider beside the ordinary crawl for some seconds, then cancels it; "" runs none.
        Each of its callbacks takes ``pause`` seconds."""
        before, started, task = self._node.run.cpu_seconds(), time.time(), 0
        if spider:
            task = self._node.submit(spider, url=self._rude_url, seconds=pause)
            [(started,)] = self._query(CREATED, task)
        time.sleep(max(0.0, started + duration - time.time()))
        end = started + duration
        cpu = (self._node.run.cpu_seconds() - before) / (time.time() - started)
        if spider:
            self._end(task)
        mine, rude = self._times(self._ordinary), self._times(task)
        return Scene(
            spider, duration, mine.rate(started, end), mine.still(started, end),
            rude.rate(started, end), cpu, mine.curve(started, end, 0.5),
        )  # fmt: skip

    def finish(self) -> int:
        """Ends the ordinary crawl, checks that nothing was lost or stored twice, and returns how
        many of its pages are stored. Raises RuntimeError."""
        self._end(self._ordinary)
        [(errors, done, items, rids)] = self._query(LEFT)
        if errors or not done == items == rids:
            raise RuntimeError(
                f"{errors} requests failed; {done} pages have {items} items of {rids} requests"
            )
        audit = manage(self._env, "audit")
        if audit.returncode:
            raise RuntimeError(f"the audit finds: {audit.stdout}{audit.stderr}")
        self._node.stop()
        return len(self._query(STORED, self._ordinary))

    def _end(self, task: int) -> None:
        done = manage(self._env, "cancel", str(task))
        deadline = time.monotonic() + NODE_TIMEOUT
        while self._query(STATE, task) != [("cancelled",)]:
            if done.returncode or time.monotonic() > deadline:
                raise self._node.run.problem(f"does not cancel task {task}: {done.stderr}")
            time.sleep(POLL_EVERY)

    def _times(self, task: int) -> Times:
        return Times(moment for (moment,) in self._query(STORED, task))

    def _query(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with closing(psycopg2.connect(self._dsn)) as connection, connection.cursor() as cursor:
            cursor.execute(statement, values)
            return list(cursor.fetchall())


@contextmanager
def stage(workers: int, work: Path) -> Iterator[Stage]:
    """A node with this many workers, which runs the ordinary crawl. Raises what the servers raise
    when they cannot be started."""
    with ExitStack() as stack:
        ordinary = stack.enter_context(CountedSite(TREE, LATENCY))
        rude = stack.enter_context(CountedSite(TREE, RUDE_LATENCY))
        postgres = stack.enter_context(Postgres())
        redis = stack.enter_context(RedisServer(work / "redis"))
        dsn = postgres.new_database(migrated(postgres, work / "migrate"))
        node = Node(
            work / "node", dsn, redis.url, spiders="benchmarks.blocking.spiders", workers=workers
        )
        stack.enter_context(node)
        env = environment(work / "node", dsn, redis.url)
        play = Stage(node, dsn, rude.url + TREE.start, env)
        play.begin(ordinary.url + TREE.start)
        yield play
