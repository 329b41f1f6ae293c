"""Cell: a cluster of one size, on servers of its own, and the cost of a page on it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import psycopg2

from benchmarks.growth.web import Web
from benchmarks.lab.node import CHECKOUT, Node, environment
from benchmarks.lab.postgres import Postgres
from benchmarks.lab.redis import RedisServer

WARM = 1_000  # pages before those that are measured, and one of each task
LOOK = 0.02  # seconds between two looks at the number of pages
SLOWEST = 20.0  # pages per second; a slower crawl is aborted
# Rows as a crawl with one new link a page leaves them; the indexes are in place.
ROWS = """
INSERT INTO crawlservice_page (rid, task_id, url, callback, state, reason, detail, status, depth,
                               attempts, deliveries, size, fetch_ms, items, version)
SELECT gen_random_uuid(), %s, 'http://www.shop.example/catalogue/section/article-' || number,
       'parse', 'done', '', '', 200, 3, 1, 1, 20000, 10, 1, '' FROM generate_series(1, %s) number
"""
# The rows of the ledger so far, without counting them.
LAST = "SELECT last_value FROM crawlservice_page_id_seq"


class Scale(NamedTuple):
    """The size of a cluster."""

    queued: int = 100_000  # requests
    tasks: int = 1  # open
    hosts: int = 1_000
    ledger: int = 0  # rows of a task that has ended


class Cost(NamedTuple):
    """Microseconds of CPU a page."""

    node: float  # all of its processes
    redis: float
    postgres: float


class Cell:
    """``with Cell(scale, port, work) as cell: cell.measure(2000)``; entering it fills everything.
    ``tables`` is the DSN of a database to copy.

    Raises RuntimeError, with the end of a log, when something does not work."""

    def __init__(
        self, scale: Scale, port: int, work: Path, postgres: Postgres, tables: str
    ) -> None:
        self._scale = scale
        self._work = work
        self._postgres = postgres
        self._dsn = postgres.new_database(tables)
        queued = max(scale.queued, scale.hosts)
        self.web = Web(port, scale.hosts, scale.tasks, queued)
        self._redis = RedisServer(work / "redis")
        self.mib = 0.0  # that Redis has allocated when it is filled

    def measure(self, pages: int) -> Cost:
        """Runs a node until it has crawled this many pages, after some to warm up."""
        node = Node(self._work, self._dsn, self._redis.url, spiders="benchmarks.growth.spiders")
        with node, closing(psycopg2.connect(self._dsn)) as database:
            database.autocommit = True
            warm = self._wait(node, database, self._last(database) + WARM + self._scale.tasks)
            before = self._cpu(node)
            count = self._wait(node, database, warm + pages) - warm
            after = self._cpu(node)
            node.stop()
        return Cost(*(1e6 * (b - a) / count for a, b in zip(before, after, strict=True)))

    def _wait(self, node: Node, database: Any, last: int) -> int:
        """Waits for this row of the ledger, and returns the last one."""
        deadline = time.monotonic() + 60 + (last - self._last(database)) / SLOWEST
        while (now := self._last(database)) < last:
            if not node.run.lives() or time.monotonic() > deadline:
                raise node.run.problem(f"has not crawled page {last}")
            time.sleep(LOOK)
        return now

    def _last(self, database: Any) -> int:
        with database.cursor() as cursor:
            cursor.execute(LAST)
            return int(cursor.fetchone()[0])

    def _cpu(self, node: Node) -> Cost:
        servers = self._redis.cpu_seconds(), self._postgres.cpu_seconds()
        return Cost(node.run.cpu_seconds(), *servers)

    def _fill(self) -> None:
        env = environment(self._work, self._dsn, self._redis.url)
        command = [sys.executable, "-m", "benchmarks.growth.opened", json.dumps(self.web._asdict())]
        done = subprocess.run(command, cwd=CHECKOUT, env=env, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"the tasks were not made: {done.stderr[-2000:]}")
        ended, *tasks = json.loads(done.stdout.splitlines()[-1])
        self.web.fill(self._redis.url, tasks)
        self.mib = self._redis.memory() / 2**20
        with closing(psycopg2.connect(self._dsn)) as database, database.cursor() as cursor:
            database.autocommit = True
            cursor.execute(ROWS, (ended, self._scale.ledger))
            cursor.execute("VACUUM ANALYZE")
            cursor.execute("CHECKPOINT")

    def __enter__(self) -> Cell:
        self._redis.__enter__()
        try:
            self._fill()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._redis.__exit__(*error)
        self._postgres.drop(self._dsn)
