"""Runs: one entry crawls the site once, on a fresh database and an empty Redis, and is measured."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.lab.meter import Metered, Usage
from benchmarks.lab.nginx import Nginx
from benchmarks.lab.node import Node, migrated
from benchmarks.lab.postgres import Postgres
from benchmarks.lab.redis import RedisServer
from benchmarks.standard import stored
from benchmarks.standard.entries import Entry
from benchmarks.standard.site import Site

WARM_UP = 256  # pages of the site that every entry crawls before the first round
RUN_TIMEOUT = 120.0  # seconds for a run, and more for each page
TIMEOUT_PER_PAGE = 0.05
# Variables of the caller's shell that may affect a contender.
OWN = ("PYTHON", "SCRAPY_", "CRAWLEE_", "APIFY_", "CRAWLFRAME_", "DATABASE_URL", "REDIS_URL")


class Result(NamedTuple):
    """One run of one entry. Times in seconds, sizes in bytes, over the whole run."""

    label: str
    pages: int
    seconds: float  # first request to last row; for Crawlframe, submission to end
    cpu: float  # of the crawler's processes, from their start to their end
    start_cpu: float | None  # of these, until the task was submitted; unknown for contenders
    redis: float  # CPU of the server
    postgres: float  # CPU of all its processes
    peak: int  # the largest process
    total: int  # all processes together
    notes: str


class Failed(Exception):
    """A run that does not count; the message says why."""


class Bench:
    """The servers, with the site on them. Use it as a context manager.

    Raises the errors of servers that cannot be started."""

    def __init__(self, pages: int, work: Path) -> None:
        self._work = work
        root = work / "root"
        (root / "warm").mkdir(parents=True)
        (work / "nginx").mkdir()
        self.nginx = Nginx(root, work / "nginx", log=False)
        self.site = Site(pages, self.nginx.url)
        self.warm_site = Site(min(WARM_UP, pages), f"{self.nginx.url}warm/")
        self.site.write(root)
        self.warm_site.write(root / "warm")
        self.postgres = Postgres()
        self.redis = RedisServer(work / "redis")
        self._stack = ExitStack()
        self._runs = 0

    def __enter__(self) -> Bench:
        with ExitStack() as stack:
            for server in (self.nginx, self.postgres, self.redis):
                stack.enter_context(server)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def run(self, entry: Entry, site: Site) -> Result:
        """Runs it once. Raises Failed when it does not do the whole job."""
        self._runs += 1
        work = self._work / f"run{self._runs}"
        work.mkdir()
        self.redis.flush()
        dsn = self.postgres.new_database("" if entry.folder else self._with_tables)
        timeout = RUN_TIMEOUT + TIMEOUT_PER_PAGE * site.pages
        try:
            if entry.folder:
                result = self._contender(entry, site, work, dsn, timeout)
                stored.check_table(dsn, site)
            else:
                result = self._ours(entry, site, work, dsn, timeout)
                stored.check_items(dsn, site)
        except (RuntimeError, OSError, stored.Wrong) as error:
            raise Failed(str(error)) from error
        finally:
            self.postgres.drop(dsn)
            shutil.rmtree(work)
        return result

    @cached_property
    def _with_tables(self) -> str:
        return migrated(self.postgres, self._work / "migrate")

    def _ours(self, entry: Entry, site: Site, work: Path, dsn: str, timeout: float) -> Result:
        before = self._servers()
        node = Node(
            work,
            dsn,
            self.redis.url,
            spiders="benchmarks.standard.spiders",
            workers=entry.processes,
            concurrency=entry.in_flight,
        )
        with node:
            node.wait_until_known(entry.spider)
            start_cpu = node.run.cpu_seconds()
            seconds = node.wait(node.submit(entry.spider, url=site.start), timeout)
            usage = node.stop()
        notes = f"{entry.in_flight} in flight per worker"
        return self._result(entry, site, before, usage, seconds, start_cpu, notes)

    def _contender(self, entry: Entry, site: Site, work: Path, dsn: str, timeout: float) -> Result:
        stored.make_table(dsn)
        options = {
            "--start": site.start,
            "--database": dsn,
            "--redis": self.redis.url,
            "--in-flight": entry.in_flight,
            "--processes": entry.processes,
        }
        words = [str(word) for pair in options.items() for word in pair]
        python = entry.python()
        command = [str(python), str(entry.program), *words, *entry.options]
        env = {name: value for name, value in os.environ.items() if not name.startswith(OWN)}
        env["PYTHONUNBUFFERED"] = "1"
        before = self._servers()
        with Metered(command, work / "log", cwd=work, env=env) as run:
            usage = run.wait(timeout)
            if usage.code:
                raise run.problem(f"ended with status {usage.code}")
            data = last_answer(run.text())
            if data is None:
                raise run.problem("did not say how it went")
        seconds, notes = float(data["seconds"]), str(data.get("notes", ""))
        if data["pages"] != site.pages or not 0 < seconds < usage.seconds:
            raise RuntimeError(
                f"it says that it stored {data['pages']} of {site.pages} pages in {seconds:.1f} s, "
                f"and ran for {usage.seconds:.1f} s"
            )
        return self._result(entry, site, before, usage, seconds, None, notes)

    def _servers(self) -> tuple[float, float]:
        return self.redis.cpu_seconds(), self.postgres.cpu_seconds()

    def _result(
        self,
        entry: Entry,
        site: Site,
        before: tuple[float, float],
        usage: Usage,
        seconds: float,
        start_cpu: float | None,
        notes: str,
    ) -> Result:
        redis, postgres = (now - then for now, then in zip(self._servers(), before, strict=True))
        return Result(
            entry.label, site.pages, seconds, usage.cpu, start_cpu, redis, postgres,
            usage.peak, usage.total, notes,
        )  # fmt: skip


def last_answer(text: str) -> dict[str, Any] | None:
    """The last line of a contender's output that reports pages and seconds."""
    for line in reversed(text.splitlines()):
        if line.startswith("{"):
            try:
                data: dict[str, Any] = json.loads(line)
            except ValueError:
                continue
            if {"pages", "seconds"} <= data.keys():
                return data
    return None
