"""Side: a tree of the framework, and the figures measured on it."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import time
from contextlib import closing
from itertools import count
from pathlib import Path

import psycopg2

from benchmarks.lab.meter import Metered
from benchmarks.lab.node import CHECKOUT, MANAGE, Node, environment, migrated
from benchmarks.lab.postgres import Postgres
from benchmarks.lab.redis import RedisServer
from benchmarks.reload.project import FRAMEWORK, copy_framework, git
from benchmarks.standard.site import Site

SPIDER = "benchmarks/standard/spiders/standard.py"  # of this checkout, on both sides
COMMAND = ("task", "list", "--help")
SETTLE = 1.0  # seconds after a reload in which the old workers end
LOOK = 0.002  # seconds between two looks for the reloaded spider
TIMEOUT = 120.0  # seconds for a task or a command
TIMES = 2  # reloads and commands in a life
EDITED = '''"""A spider that has another name after each change."""

from crawlframe import Spider


class Edited(Spider):
    name = "{name}"

    def parse(self, response):
        yield {{}}
'''


class Side:
    """``directory`` is the tree. Each ``measure`` is a life of a new node, since a node is often
    slower or faster than its twin for as long as it lives.

    Raises RuntimeError, with the end of a log, when something does not work."""

    def __init__(self, directory: Path, postgres: Postgres) -> None:
        self._directory = directory
        self._work = directory.with_name(f"{directory.name}-work")
        self._postgres = postgres
        self._tables = migrated(postgres, self._work / "migrate", directory)
        self._lives = count(1)

    def measure(self, site: Site) -> dict[str, float]:
        """The figures by name, in microseconds and milliseconds."""
        work = self._work / str(next(self._lives))
        dsn = self._postgres.new_database(self._tables)
        with RedisServer(work / "redis") as redis:
            node = Node(work, dsn, redis.url, options=("--reload",), directory=self._directory)
            with node:
                figures = self._pages(site, node, redis, dsn)
                figures["reload"] = statistics.mean(self._reload(node) for _ in range(TIMES))
                node.stop()
            env = environment(work, dsn, redis.url)
            figures["command"] = statistics.mean(self._command(env, work) for _ in range(TIMES))
        self._postgres.drop(dsn)
        shutil.rmtree(work)
        return figures

    def _pages(self, site: Site, node: Node, redis: RedisServer, dsn: str) -> dict[str, float]:
        """CPU of a page, without the start of the node."""
        node.wait_until_known("standard")
        before = node.run.cpu_seconds(), redis.cpu_seconds()
        task = node.submit("standard", url=site.start)
        node.wait(task, TIMEOUT)
        after = node.run.cpu_seconds(), redis.cpu_seconds()
        with closing(psycopg2.connect(dsn)) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT nf, items FROM crawlservice_task WHERE id = %s", (task,))
            if (done := cursor.fetchone()) != (site.pages + 1, site.pages):  # with the start
                raise node.run.problem(f"made {done} requests and items of {site.pages} pages")
        pairs = zip(("page", "redis"), before, after, strict=True)
        return {name: 1e6 * (late - early) / site.pages for name, early, late in pairs}

    def _reload(self, node: Node) -> float:
        """Changes a module; it is live when the node publishes its spider's new name."""
        name = f"edited{time.monotonic_ns()}"
        started = time.monotonic()
        (self._directory / "spiders" / "edited.py").write_text(EDITED.format(name=name))
        node.wait_until_known(name, LOOK)
        seconds = time.monotonic() - started
        time.sleep(SETTLE)
        return 1e3 * seconds

    def _command(self, env: dict[str, str], work: Path) -> float:
        """Starts a command that needs no server."""
        command, log = [*MANAGE, *COMMAND], work / "command.log"
        with Metered(command, log, cwd=self._directory, env=env) as run:
            usage = run.wait(TIMEOUT)
            if usage.code:
                raise run.problem(f"ended with status {usage.code}")
        return 1e3 * usage.cpu


def make_trees(commit: str, work: Path) -> tuple[Path, Path]:
    """The trees of a commit and of this checkout as it is now, with the same spiders. Raises
    RuntimeError with git's words."""
    old, new = work / "old", work / "new"
    old.mkdir()
    copy_framework(new)
    git(CHECKOUT, "archive", "-o", str(work / "old.tar"), commit, "--", *FRAMEWORK)
    subprocess.run(["tar", "-xf", work / "old.tar", "-C", old], check=True)
    for tree in (old, new):
        (tree / "spiders").mkdir()
        (tree / "spiders" / "__init__.py").touch()
        shutil.copy(CHECKOUT / SPIDER, tree / "spiders")
    return old, new
