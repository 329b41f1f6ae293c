"""The task whose start is measured: one worker, a local PostgreSQL and Redis, no network."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import psutil
import psycopg2

from benchmarks.lab.job import say
from benchmarks.lab.node import Node, migrated
from benchmarks.lab.postgres import Postgres
from benchmarks.lab.redis import RedisServer
from benchmarks.memory.names import Names

EVERY = 1.0  # seconds between two samples
TELL = 20.0  # seconds between two lines of progress
# A replaced worker would start afresh, and hide what it had leaked before.
NEVER = {"CRAWLFRAME_MAX_MEMORY": "1048576", "CRAWLFRAME_MAX_AGE": "31536000"}
PARTS = "SELECT count(*), coalesce(max(position), 0) FROM crawlservice_startpart"
PAGES = "SELECT count(*), count(DISTINCT url) FROM crawlservice_page"


class Sample(NamedTuple):
    """One moment. Sizes in bytes."""

    seconds: float  # since the submission
    admitted: int
    waiting: int
    worker: int  # USS: what only it has
    redis: int  # what the server has allocated


def measure(urls: int, work: Path, *, alone: bool) -> list[Sample]:
    """Runs a start of this many requests, and the requests, unless the start is measured
    ``alone``, without a limit of what waits. Raises RuntimeError."""
    env = NEVER | ({"CRAWLFRAME_START_AHEAD": str(2 * urls)} if alone else {})
    with (
        Postgres() as postgres,
        RedisServer(work / "redis") as redis,
        Node(
            work / "node",
            dsn := postgres.new_database(migrated(postgres, work / "migrate")),
            redis.url,
            spiders="benchmarks.starts.spiders",
            concurrency=64,
            env=env,
        ) as node,
    ):
        task = node.submit("waiting" if alone else "flood", urls=str(urls))
        samples = [*_watch(node, redis, task, urls, alone=alone)]
        if not alone:
            node.wait(task, 60)
        _check(dsn, urls, alone=alone)
    return samples


def _watch(
    node: Node, redis: RedisServer, task: int, urls: int, *, alone: bool
) -> Iterator[Sample]:
    started = told = time.monotonic()
    names = Names(node.run.processes)
    for counts in node.counts_of(task):
        now = time.monotonic()
        memory = redis.client.info("memory")["used_memory"]
        yield Sample(now - started, counts.na, counts.nr, worker_memory(names), memory)
        if now - told >= TELL:
            told = now
            rate = counts.na / (now - started)
            say("starts", f"{counts.na:,} of {urls:,} admitted, {rate:,.0f}/s")
        if alone and counts.na > urls:
            return
        time.sleep(EVERY)


def worker_memory(names: Names) -> int:
    """USS of the largest worker in bytes."""
    size = 0
    for process, name in names.of_all():
        if name.startswith("worker"):
            try:
                size = max(size, process.memory_full_info().uss)
            except psutil.Error:
                continue
    return size


def _check(dsn: str, urls: int, *, alone: bool) -> None:
    with closing(psycopg2.connect(dsn)) as connection, connection.cursor() as cursor:
        cursor.execute(PARTS)
        parts, position = cursor.fetchone()
        if position != urls:
            raise RuntimeError(f"{parts} parts end at {position} of {urls} requests")
        cursor.execute(PAGES)
        if not alone and (found := cursor.fetchone()) != (urls + 1, urls + 1):
            raise RuntimeError(f"the ledger has {found} pages and URLs of {urls} and the start")
    say("starts", f"{parts:,} parts")
