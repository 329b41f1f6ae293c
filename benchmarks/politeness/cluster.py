"""Cluster: two nodes of two workers, whose code can be changed; one can be lost."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path

import psutil
import psycopg2

from benchmarks.lab.node import NODE_TIMEOUT, POLL_EVERY, Node
from crawlframe.conf import Settings
from crawlframe.frontier import Frontier

SPIDER = "polite"
SOURCE = Path(__file__).with_name("spiders")
PACKAGE = "politenessspiders"
NODES, WORKERS = 2, 2
ACTIVE = ("running", "paused", "cancelling")
LEASE = 5.0  # seconds until a node that was killed counts as dead


class Cluster:
    """``with Cluster(work, dsn, redis_url) as cluster: task = cluster.submit(urls)``; ``work`` is a
    directory to be made, ``dsn`` a PostgreSQL database with all tables, ``env`` further variables
    of the nodes. Raises RuntimeError when a node fails."""

    def __init__(
        self, work: Path, dsn: str, redis: str, env: Mapping[str, str] | None = None
    ) -> None:
        self._work = work
        self._dsn, self._redis = dsn, redis
        self._env = {
            "CRAWLFRAME_LEASE": str(LEASE),
            "CRAWLFRAME_BEAT": str(LEASE / 5),
            "CRAWLFRAME_RESOLVER": f"{PACKAGE}.names:resolve",
            "PYTHONPATH": str(work),
            **(env or {}),
        }
        self._nodes: dict[str, Node] = {}
        self._stack = ExitStack()
        self._starts = self._edits = 0
        self._lists = count(1)

    def submit(self, urls: Iterable[str], spider: str = SPIDER) -> int:
        """The number of a new task that crawls these URLs."""
        file = self._work / f"urls{next(self._lists)}"
        file.write_text("\n".join(urls))
        return self._submit(spider, file)

    def state(self, task: int) -> str:
        """The state of a task in the database, such as "running"."""
        with closing(psycopg2.connect(self._dsn)) as connection:
            cursor = connection.cursor()
            cursor.execute("SELECT state FROM crawlservice_task WHERE id = %s", (task,))
            return str(cursor.fetchone()[0])

    def ended(self, task: int) -> bool:
        for node in self._nodes.values():
            if not node.run.lives():
                raise node.run.problem("ended")
        return self.state(task) not in ACTIVE

    def wait(self, task: int, timeout: float) -> bool:
        """Whether it ended within ``timeout`` seconds."""
        deadline = time.monotonic() + timeout
        while not (ended := self.ended(task)) and time.monotonic() < deadline:
            time.sleep(POLL_EVERY)
        return ended

    def reload(self) -> None:
        """Changes the spider's file, as an editor saves it; the nodes replace their workers."""
        self._edits += 1
        with (self._work / PACKAGE / "polite.py").open("a") as file:
            file.write(f"\nEDITS = {self._edits}\n")

    def lose(self) -> None:
        """Kills all processes of one node at once, and starts it again when its lease is over, as
        the service manager of a machine would."""
        name = min(self._nodes)
        node = self._nodes.pop(name)
        while processes := node.run.processes():
            for process in processes:
                try:
                    process.kill()
                except psutil.NoSuchProcess:
                    continue
            psutil.wait_procs(processes, timeout=1)
        self._start(name)

    def resting(self, host: str) -> float:
        """Seconds for which the frontier sends nothing more to a host."""
        frontier = Frontier.connect(self._redis, Settings())
        with closing(frontier.store.redis):
            state = frontier.hosts.states([host])[host]
        return max(0.0, state.closed_until - time.time())

    def __enter__(self) -> Cluster:
        shutil.copytree(SOURCE, self._work / PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
        with ExitStack() as stack:
            self._stack = stack
            for number in range(NODES):
                self._start(f"node{number + 1}")
            self._wait_until_ready()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def _start(self, name: str) -> None:
        self._starts += 1
        node = Node(
            self._work / f"{name}.{self._starts}", self._dsn, self._redis, spiders=PACKAGE,
            workers=WORKERS, name=name, options=("--reload",), env=self._env,
        )  # fmt: skip
        self._nodes[name] = self._stack.enter_context(node)

    def _submit(self, spider: str, file: Path) -> int:
        """The number of a new task of the spider with this file of URLs."""
        return self._any().submit(spider, file=file)

    def _any(self) -> Node:
        return self._nodes[max(self._nodes)]

    def _wait_until_ready(self) -> None:
        """Waits until all nodes have loaded the spider, so that all crawl from the start on."""
        deadline = time.monotonic() + NODE_TIMEOUT
        frontier = Frontier.connect(self._redis, Settings())
        with closing(frontier.store.redis):
            while sum(SPIDER in info.spiders for info in frontier.leases.nodes()) < NODES:
                if time.monotonic() > deadline:
                    raise self._any().run.problem("or the other node does not get ready")
                time.sleep(POLL_EVERY)
