"""Cluster: the standard job by several nodes on one Redis and one PostgreSQL."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NamedTuple

import psutil

from benchmarks.lab.node import NODE_TIMEOUT, POLL_EVERY, Node, migrated
from benchmarks.standard import stored
from benchmarks.standard.runs import Bench
from crawlframe.conf import Settings
from crawlframe.frontier import Frontier

SPIDER = "standard"
IN_FLIGHT = 64  # per worker
TIMEOUT = 120.0  # seconds for a run, and more for each page
TIMEOUT_PER_PAGE = 0.05


class Size(NamedTuple):
    nodes: int
    workers: int  # of each node

    @property
    def label(self) -> str:
        nodes = "1 node" if self.nodes == 1 else f"{self.nodes} nodes"
        return f"{nodes} x {'1 worker' if self.workers == 1 else f'{self.workers} workers'}"


class Run(NamedTuple):
    """One crawl. ``cpu`` in seconds, from the submission of the task to its end, by part:
    ``"crawler"`` (all processes of all nodes), ``"site"``, ``"Redis"``, ``"PostgreSQL"``."""

    size: Size
    pages: int
    seconds: float
    cpu: dict[str, float]
    busy: float  # processors used on average, including by other programs

    @property
    def rate(self) -> float:
        """Pages per second."""
        return self.pages / self.seconds

    def share(self, part: str) -> float:
        """Processors used by a part on average."""
        return self.cpu[part] / self.seconds

    def per_page(self, part: str) -> float:
        """CPU milliseconds of a part per page."""
        return 1000 * self.cpu[part] / self.pages


def crawl(bench: Bench, size: Size, template: str, work: Path) -> Run:
    """Crawls the site of ``bench`` once, on a copy of the database ``template`` and an empty Redis,
    and checks every row. Raises RuntimeError, and stored.Wrong."""
    bench.redis.flush()
    dsn = bench.postgres.new_database(template)
    try:
        with ExitStack() as stack:
            nodes = [
                stack.enter_context(_node(bench, size, dsn, work, number))
                for number in range(size.nodes)
            ]
            _wait_until_ready(bench.redis.url, nodes)
            meters = _meters(bench, nodes)
            before = {name: meter() for name, meter in meters.items()}
            task = nodes[0].submit(SPIDER, url=bench.site.start)
            submitted = time.monotonic(), _machine()  # the time of the command does not count
            seconds = nodes[0].wait(task, TIMEOUT + TIMEOUT_PER_PAGE * bench.site.pages)
            used = {name: meter() - before[name] for name, meter in meters.items()}
            busy = (_machine() - submitted[1]) / (time.monotonic() - submitted[0])
            for node in nodes:
                node.stop()
        stored.check_items(dsn, bench.site)
    finally:
        bench.postgres.drop(dsn)
        shutil.rmtree(work / "nodes")
    return Run(size, bench.site.pages, seconds, used, busy)


def prepared(bench: Bench, work: Path) -> str:
    """The DSN of a database with all tables, for ``crawl``."""
    return migrated(bench.postgres, work / "tables")


def _node(bench: Bench, size: Size, dsn: str, work: Path, number: int) -> Node:
    return Node(
        work / "nodes" / str(number),
        dsn,
        bench.redis.url,
        spiders="benchmarks.standard.spiders",
        workers=size.workers,
        concurrency=IN_FLIGHT,
        name=f"node{number + 1}",
    )


def _wait_until_ready(redis: str, nodes: list[Node]) -> None:
    """Waits until all nodes have loaded the spider, so that all crawl from the first page on."""
    deadline = time.monotonic() + NODE_TIMEOUT
    frontier = Frontier.connect(redis, Settings())
    with closing(frontier.store.redis):
        while sum(SPIDER in info.spiders for info in frontier.leases.nodes()) < len(nodes):
            for node in nodes:
                if not node.run.lives():
                    raise node.run.problem("ended at its start")
                if time.monotonic() > deadline:
                    raise node.run.problem("or another node does not get ready")
            time.sleep(POLL_EVERY)


def _meters(bench: Bench, nodes: list[Node]) -> dict[str, Callable[[], float]]:
    """CPU seconds by part."""
    return {
        "crawler": lambda: sum(node.run.cpu_seconds() for node in nodes),
        "site": bench.nginx.cpu_seconds,
        "Redis": bench.redis.cpu_seconds,
        "PostgreSQL": bench.postgres.cpu_seconds,
    }


def _machine() -> float:
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - times.iowait - times.guest - times.guest_nice)
