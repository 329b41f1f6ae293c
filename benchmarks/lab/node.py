"""Node: ``runcrawler`` of this checkout under the meter, on the servers of the benchmark."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2

from benchmarks.lab.meter import Metered, Usage
from benchmarks.lab.postgres import Postgres
from crawlframe.conf import Settings
from crawlframe.frontier import Counts, Frontier

CHECKOUT = Path(__file__).resolve().parents[2]
MANAGE = (sys.executable, "manage.py")
NODE_TIMEOUT = 60.0  # seconds for a start or an end
POLL_EVERY = 0.05  # seconds between two checks of the task
# Variables of the caller's shell that concern another Crawlframe, or its own Python.
OWN = ("CRAWLFRAME_", "DJANGO_", "DATABASE_URL", "REDIS_URL", "PYTHONDONTWRITEBYTECODE")


class Node:
    """``with Node(var, dsn, redis_url) as node: task = node.submit("site", url=...)``.

    ``var`` is its directory, made if missing, with its log in ``node.log``; ``dsn`` names a
    PostgreSQL database with all tables (``migrated``). ``spiders`` is the dotted name of the
    package whose spiders it runs. ``options`` are further words for runcrawler, ``env`` further
    variables, ``directory`` has the manage.py that runs. Several nodes on one database and Redis
    are a cluster; they need different ``name``.

    Every method raises RuntimeError with the end of the log when the node does not do it."""

    def __init__(
        self,
        var: Path,
        dsn: str,
        redis: str,
        *,
        spiders: str = "spiders",
        workers: int = 1,
        concurrency: int = 64,
        name: str = "bench",
        options: tuple[str, ...] = (),
        directory: Path = CHECKOUT,
        env: Mapping[str, str] | None = None,
    ) -> None:
        var.mkdir(parents=True, exist_ok=True)
        self._dsn = dsn
        self._redis = redis
        self._directory = directory
        self._env = {**environment(var, dsn, redis), "CRAWLFRAME_SPIDERS": spiders, **(env or {})}
        words = ["--workers", workers, "--concurrency", concurrency, "--node", name]
        command = [*MANAGE, "runcrawler", *map(str, words), *options]
        self.run = Metered(command, var / "node.log", cwd=directory, env=self._env)

    def submit(
        self, spider: str, settings: Mapping[str, Any] | None = None, /, **arguments: Any
    ) -> int:
        """The id of the new task, once the node has published the spider."""
        self.wait_until_known(spider)
        words = [f"-a{name}={value}" for name, value in arguments.items()]
        words += [f"-s{name}={value}" for name, value in (settings or {}).items()]
        done = manage(self._env, "submit", spider, *words, directory=self._directory)
        found = re.search(r"task (\d+) submitted", done.stdout)
        if found is None:
            raise self.run.problem(f"got no task: {done.stdout}{done.stderr}")
        return int(found[1])

    def wait(self, task: int, timeout: float) -> float:
        """Seconds from the submission of a task to its end, as its row in the database says."""
        deadline = time.monotonic() + timeout
        query = "SELECT extract(epoch FROM finished_at - created_at) FROM crawlservice_task"
        with closing(psycopg2.connect(self._dsn)) as connection:
            connection.autocommit = True
            cursor = connection.cursor()
            while True:
                cursor.execute(f"{query} WHERE id = %s", (task,))
                seconds = cursor.fetchone()[0]
                if seconds is not None:
                    return float(seconds)
                if not self.run.lives():
                    raise self.run.problem("ended before its task")
                if time.monotonic() > deadline:
                    raise self.run.problem(f"has not finished task {task} after {timeout:.0f} s")
                time.sleep(POLL_EVERY)

    def counts_of(self, task: int) -> Iterator[Counts]:
        """The counters of a task whenever the next ones are asked for, until it has ended. Raises
        RuntimeError if the node ends before."""
        frontier = Frontier.connect(self._redis, Settings(), follows=True)
        with closing(frontier.store.redis):
            while counts := frontier.counts(task):
                if not self.run.lives():
                    raise self.run.problem("ended before its task")
                yield counts

    def stop(self) -> Usage:
        """Stops it as an operator does: SIGTERM, then waits until all have ended."""
        if self.run.lives():
            self.run.send(signal.SIGTERM)
        usage = self.run.wait(NODE_TIMEOUT)
        if usage.code:
            raise self.run.problem(f"ended with status {usage.code}")
        return usage

    def wait_until_known(self, spider: str, every: float = POLL_EVERY) -> None:
        """``every``: seconds between two looks."""
        deadline = time.monotonic() + NODE_TIMEOUT
        frontier = Frontier.connect(self._redis, Settings())
        try:
            while spider not in frontier.spiders.all():
                if not self.run.lives():
                    raise self.run.problem("ended at its start")
                if time.monotonic() > deadline:
                    raise self.run.problem(f"does not tell of a spider {spider!r}")
                time.sleep(every)
        finally:
            frontier.store.redis.close()

    def __enter__(self) -> Node:
        self.run.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.run.__exit__(*error)


def environment(var: Path, dsn: str, redis: str) -> dict[str, str]:
    """The environment for a manage.py to use these servers, and to crawl loopback."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OWN)}
    return {
        **kept,
        "CRAWLFRAME_VAR_DIR": str(var),
        "CRAWLFRAME_ALLOW_PRIVATE": "127.0.0.0/8",
        "DATABASE_URL": dsn,
        "REDIS_URL": redis,
        "PYTHONUNBUFFERED": "1",
    }


def manage(
    env: Mapping[str, str], *words: str, directory: Path = CHECKOUT
) -> subprocess.CompletedProcess[str]:
    """Runs manage.py of a directory and waits for its end."""
    return subprocess.run(
        [*MANAGE, *words], cwd=directory, env=env, capture_output=True, text=True, check=False
    )


def migrated(postgres: Postgres, var: Path, directory: Path = CHECKOUT) -> str:
    """The DSN of a database with all tables, from which ``new_database`` makes copies."""
    dsn = postgres.new_database()
    env = environment(var, dsn, "redis://127.0.0.1:1")
    done = manage(env, "migrate", "--verbosity=0", directory=directory)
    if done.returncode:
        raise RuntimeError(f"manage.py migrate: {done.stderr[-2000:]}")
    return dsn
