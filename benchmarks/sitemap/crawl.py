"""The task whose sitemap is measured: one worker, a local PostgreSQL and Redis. The sitemaps are
fetched over loopback; pages cost no fetch."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import psycopg2

from benchmarks.lab.job import say
from benchmarks.lab.node import Node, migrated
from benchmarks.lab.postgres import Postgres
from benchmarks.lab.redis import RedisServer
from benchmarks.memory.names import Names
from benchmarks.sitemap.files import Files
from benchmarks.sitemap.spiders.million import PAGES
from benchmarks.starts.crawl import EVERY, NEVER, TELL, worker_memory

FOUND = (
    "SELECT count(*) FILTER (WHERE url LIKE %s), count(DISTINCT url) FILTER (WHERE url LIKE %s), "
    "count(*) FILTER (WHERE callback = 'read_sitemap'), count(*) FILTER (WHERE state = 'error') "
    "FROM crawlservice_page"
)


class Sample(NamedTuple):
    """One moment. Sizes in bytes, stalls in seconds."""

    seconds: float  # since the submission
    admitted: int
    waiting: int
    worker: int  # USS: what only it has
    redis: int  # what the server has allocated
    stall: float  # for which the event loop was held up, at most so far
    computed: float  # by it in one piece, at most so far


def measure(urls: int, work: Path, *, one: bool, alone: bool) -> list[Sample]:
    """Crawls a sitemap of this many pages, in one file or as the protocol has it; ``alone``: only
    the sitemaps, until all pages wait. Raises RuntimeError, also if a page is missing in the ledger
    or there twice."""
    stalls = work / "stalls"
    stalls.touch()
    with (
        Postgres() as postgres,
        RedisServer(work / "redis") as redis,
        Files(work / "files", urls, one=one) as url,
        Node(
            work / "node",
            dsn := postgres.new_database(migrated(postgres, work / "migrate")),
            redis.url,
            spiders="benchmarks.sitemap.spiders",
            concurrency=64,
            env=NEVER,
        ) as node,
    ):
        task = node.submit("waiting" if alone else "million", url=url, stalls=str(stalls))
        samples = [*_watch(node, redis, task, urls, stalls, alone=alone)]
        if not alone:
            node.wait(task, 60)
            _check(dsn, urls)
    return samples


def _watch(
    node: Node, redis: RedisServer, task: int, urls: int, stalls: Path, *, alone: bool
) -> Iterator[Sample]:
    started = told = time.monotonic()
    names = Names(node.run.processes)
    for counts in node.counts_of(task):
        now = time.monotonic()
        memory = redis.client.info("memory")["used_memory"]
        worker = worker_memory(names)
        sample = Sample(now - started, counts.na, counts.nr, worker, memory, *_worst(stalls))
        yield sample
        if now - told >= TELL:
            told = now
            say(
                "sitemap",
                f"{counts.na:,} of {urls:,} admitted, {counts.nr:,} wait, worker "
                f"{worker / 2**20:.1f} MiB, longest stall {1000 * sample.stall:.0f} ms, of "
                f"which computed {1000 * sample.computed:.0f}",
            )
        if alone and counts.nr == urls:  # also the sitemaps are done
            return
        time.sleep(EVERY)


def _worst(stalls: Path) -> tuple[float, float]:
    lines = [line.split() for line in stalls.read_text().split("\n")[:-1]]
    waits = max((float(wait) for wait, _ in lines), default=0.0)
    return waits / 1000, max((float(own) for _, own in lines), default=0.0) / 1000


def _check(dsn: str, urls: int) -> None:
    with closing(psycopg2.connect(dsn)) as connection, connection.cursor() as cursor:
        cursor.execute(FOUND, (f"%{PAGES}%", f"%{PAGES}%"))
        pages, different, sitemaps, errors = cursor.fetchone()
    if (pages, different, errors) != (urls, urls, 0):
        raise RuntimeError(
            f"the ledger has {pages} pages, {different} URLs and {errors} errors of {urls} pages"
        )
    say("sitemap", f"{pages:,} pages, each once; sitemaps were fetched {sitemaps} times")
