"""The crawl whose memory is measured: one worker, a site of many small pages, all servers local."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import psycopg2

from benchmarks.lab.counted import CountedSite
from benchmarks.lab.job import say
from benchmarks.lab.names import Names
from benchmarks.lab.node import Node, migrated
from benchmarks.lab.postgres import Postgres
from benchmarks.lab.redis import RedisServer
from benchmarks.lab.tree import Tree
from benchmarks.memory.growth import Sample
from crawlframe.frontier.client.records import Counts

IN_FLIGHT = 64
SAMPLES = 600  # about as many over the whole crawl
TELL = 10.0  # seconds between two lines of progress
SLOWEST = 50.0  # pages per second; a slower crawl is aborted
# A replaced worker would start afresh, and hide its earlier leak.
NEVER = {"CRAWLFRAME_MAX_MEMORY": "1048576", "CRAWLFRAME_MAX_AGE": "31536000"}
CHECK = """
SELECT (SELECT count(*) FROM crawlservice_page WHERE state = 'done'),
       (SELECT count(*) FROM crawlservice_page),
       count(*), count(DISTINCT data->>'url'), count(DISTINCT data->>'h1')
FROM crawlservice_item
"""


def crawl(pages: int, work: Path) -> list[Sample]:
    """Crawls this many pages, and checks that each is stored once. Raises RuntimeError."""
    tree = Tree(pages)
    with (
        CountedSite(tree) as site,
        Postgres() as postgres,
        RedisServer(work / "redis") as redis,
        Node(
            work / "node",
            dsn := postgres.new_database(migrated(postgres, work / "migrate")),
            redis.url,
            spiders="benchmarks.memory.spiders",
            concurrency=IN_FLIGHT,
            env=NEVER,
        ) as node,
    ):
        task = node.submit("tree", url=f"{site.url}{tree.start}")
        samples = [*_watch(node, redis, task, pages)]
        node.wait(task, 60)
        node.stop()
        _check(dsn, pages)
        fetched = site.take().pages
        say("memory", f"all {pages:,} pages stored once, {fetched - pages} fetched twice")
    return samples


def _watch(node: Node, redis: RedisServer, task: int, pages: int) -> Iterator[Sample]:
    started = reported = time.monotonic()
    names = Names(node.run.processes)
    for counts in node.counts_of(task):
        now = time.monotonic()
        sample = _sample(now - started, counts, names, redis)
        yield sample
        if now - reported >= TELL:
            reported = now
            say("memory", _progress(sample, pages))
        if sample.seconds > 60 + pages / SLOWEST:
            raise node.run.problem(f"has done {sample.pages} pages in {sample.seconds:.0f} s")
        # At most twenty times a second, because measuring takes some milliseconds.
        rate = max(1.0, sample.pages / max(sample.seconds, 1.0))
        time.sleep(min(2.0, max(0.05, pages / rate / SAMPLES)))


def _sample(seconds: float, counts: Counts, names: Names, redis: RedisServer) -> Sample:
    rss, pss, uss = {}, {}, {}
    for process, name in names.of_all():
        try:
            memory = process.memory_full_info()
        except psutil.Error:
            continue
        rss[name], pss[name], uss[name] = memory.rss, memory.pss, memory.uss
    server = redis.client.info("memory")
    return Sample(
        seconds, counts.nf + counts.ne, counts.nr, rss, pss, uss, server["used_memory"],
        server["used_memory_rss"],
    )  # fmt: skip


def _progress(sample: Sample, pages: int) -> str:
    worker = sum(size for name, size in sample.uss.items() if name.startswith("worker"))
    return (
        f"{sample.pages:,} of {pages:,} pages, {sample.pages / sample.seconds:,.0f}/s, "
        f"{sample.queued:,} queued, worker {worker / 2**20:.1f} MiB, "
        f"Redis {sample.redis / 2**20:.0f} MiB"
    )


def _check(dsn: str, pages: int) -> None:
    with closing(psycopg2.connect(dsn)) as connection, connection.cursor() as cursor:
        cursor.execute(CHECK)
        done, ledger, items, urls, titles = cursor.fetchone()
    wanted = (pages + 1, pages + 1, pages, pages, pages)  # one request ran the spider's start
    if (done, ledger, items, urls, titles) != wanted:
        raise RuntimeError(
            f"of {pages} pages and the start, the ledger has {ledger} requests, {done} of them "
            f"done, and the database {items} items of {urls} URLs with {titles} headings"
        )
