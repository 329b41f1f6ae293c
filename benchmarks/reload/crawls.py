"""The crawls during which code is changed, or the node restarted."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import psutil

from benchmarks.lab.counted import CountedSite
from benchmarks.lab.node import NODE_TIMEOUT, Node
from benchmarks.lab.redis import RedisServer
from benchmarks.lab.tree import Tree
from benchmarks.reload.changes import SETTLE, Change, Run
from benchmarks.reload.memory import Sample
from benchmarks.reload.project import Project
from benchmarks.reload.rows import Database, Row

PAGES = 5_000_000  # more than any run crawls
WARM_UP = 5.0  # seconds of crawling before the first change
POLL_EVERY = 0.02  # seconds between two looks into the database
WORKERS = 2


class Place(NamedTuple):
    """The place of a run: an empty directory, the latency of the site in seconds, and the number of
    spider modules."""

    directory: Path
    latency: float
    modules: int


class Crawl:
    """A node that crawls the code of a project, with a SQLite file and a Redis of its own.

    Raises RuntimeError, with the end of its log, when it fails."""

    def __init__(self, place: Path, project: Project, redis: str, *, reload: bool) -> None:
        self._var = place / "var"
        self._project = project
        self._redis = redis
        self._options = ("--reload",) if reload else ()
        self._file = self._var / "bench.sqlite3"
        self._database = Database(self._file)
        self._stack = ExitStack()
        self.rows: list[Row] = []  # rows read so far

    def start(self) -> None:
        """Starts the node; returns at once."""
        self._node = self._stack.enter_context(
            Node(
                self._var, f"sqlite:///{self._file}", self._redis, workers=WORKERS,
                options=self._options, directory=self._project.directory,
            )
        )  # fmt: skip

    def submit(self, url: str) -> None:
        self._node.submit("tree", url=url)

    def stop(self) -> None:
        self._node.stop()
        self._stack.close()

    def wait_for(self, change: int) -> None:
        """Waits until a page was parsed by code with this change."""
        deadline = time.monotonic() + NODE_TIMEOUT
        while not any(row.change >= change for row in self._read()):
            if not self._node.run.lives():
                raise self._node.run.problem("ended")
            if time.monotonic() > deadline:
                raise self._node.run.problem(f"parsed no page by code with change {change}")
            time.sleep(POLL_EVERY)

    def watch(self, seconds: float) -> None:
        """Lets it work for this long."""
        time.sleep(seconds)
        self._read()

    def processes(self) -> tuple[psutil.Process, psutil.Process]:
        """The supervisor, and the master that runs the node now."""
        supervisor = self._node.run.processes()[0]
        words = [(child, " ".join(child.cmdline())) for child in supervisor.children()]
        if masters := [child for child, command in words if "--supervised" in command]:
            return supervisor, masters[-1]
        raise self._node.run.problem("has no master")

    def _read(self) -> list[Row]:
        new = self._database.read()
        self.rows += new
        return new

    def close(self) -> None:
        """Kills the remaining processes."""
        self._stack.close()
        self._read()
        self._database.close()


def reloads(place: Place, name: str, count: int) -> Run:
    """The spiders change while they are crawling, by hand and by git in turn."""
    with _crawl(place, Run(name, [])) as (run, project, crawl):
        for number in range(1, count + 1):
            crawl.watch(random.uniform(0, 0.3))  # not in step with anything
            how = "edit" if number % 2 else "pull"
            written = project.edit(number) if number % 2 else project.pull(number)
            run.changes.append(Change(number, how, written))
            crawl.wait_for(number)
            crawl.watch(SETTLE)
    return run


def hand_overs(place: Place, count: int) -> Run:
    """A file of the framework changes: the node is handed over to a new master."""
    with _crawl(place, Run("framework changed", [])) as (run, project, crawl):
        for number in range(1, count + 1):
            written = project.change_framework(number)
            run.changes.append(Change(number, "framework", written))
            crawl.wait_for(number)
            crawl.watch(SETTLE + 2)  # the old master drains, and the supervisor re-executes itself
    return run


def restarts(place: Place, count: int) -> Run:
    """The node is stopped, and started again once it has ended."""
    with _crawl(place, Run("node restarted", []), reload=False) as (run, project, crawl):
        for number in range(1, count + 1):
            run.changes.append(Change(number, "restart", project.edit(number)))
            crawl.stop()
            crawl.start()
            crawl.wait_for(number)
            crawl.watch(SETTLE)
    return run


def many_reloads(place: Place, count: int) -> list[Sample]:
    """As many reloads as possible in a row: the memory of the processes above the workers."""
    samples = []
    with _crawl(place, Run("memory", [])) as (run, project, crawl):
        for number in range(1, count + 1):
            run.changes.append(Change(number, "edit", project.edit(number)))
            crawl.wait_for(number)
            samples.append(Sample.take(number, *crawl.processes()))
    return samples


@contextmanager
def _crawl(place: Place, run: Run, *, reload: bool = True) -> Iterator[tuple[Run, Project, Crawl]]:
    """A node that crawls; ``run`` is evaluated when it has stopped."""
    place.directory.mkdir()
    tree = Tree(PAGES)
    with CountedSite(tree, place.latency) as site, RedisServer(place.directory / "redis") as redis:
        project = Project(place.directory / "project", place.modules)
        crawl = Crawl(place.directory, project, redis.url, reload=reload)
        try:
            crawl.start()
            crawl.submit(f"{site.url}{tree.start}")
            crawl.wait_for(0)
            time.sleep(WARM_UP)
            yield run, project, crawl
            crawl.stop()
        finally:
            crawl.close()
        run.judge(crawl.rows, site.take())
