"""Run: one crawl by a node with a browser, and a look at its processes meanwhile."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import psutil
import psycopg2

from benchmarks.browser.site import CARDS, Site
from benchmarks.lab.job import say
from benchmarks.lab.meter import Metered, left
from benchmarks.lab.node import Node
from crawlframe.fetch.browser import footprint

LOOK_EVERY = 0.5  # seconds
TOGETHER = 500  # pages of a task, of those that do harm: each task meets the same kinds of them
ENDS = 20.0  # seconds in which the processes of a node end after it
BROWSER = ("chrom", "node")  # names of programs: the browser, and the driver of Playwright


class Crawl(NamedTuple):
    """``cpu`` is in seconds, of all processes, and of those of Chromium as far as they were seen.
    ``memory``: bytes of the browser at so many ended pages."""

    pages: int
    seconds: float
    cpu: float
    chromium: float
    memory: list[tuple[int, int]]
    rows: int
    urls: int
    whole: int  # pages with all cards
    reasons: Counter[str]
    orphans: int
    hung: bool = False  # it was ended


class Watch:
    """Looks at the processes of a program until it is closed. ``kill`` may be called from any
    thread."""

    def __init__(self, run: Metered) -> None:
        self.seen: set[psutil.Process] = set()
        self.memory: list[tuple[int, int]] = []
        self.ended = 0  # pages
        self._metered = run
        self._cpu: dict[psutil.Process, float] = {}
        self._struck: set[str] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        self._thread.join()

    @property
    def cpu(self) -> float:
        """Seconds of all processes of Chromium."""
        return sum(self._cpu.values())

    def _run(self) -> None:
        while not self._over.wait(LOOK_EVERY):
            processes = self._browser()
            self.seen.update(processes)
            for process in processes:
                with contextlib.suppress(psutil.Error):
                    if process.name().startswith(BROWSER[0]):
                        times = process.cpu_times()
                        self._cpu[process] = times.user + times.system
            self.memory.append((self.ended, footprint.proportional(processes)))

    def _browser(self) -> list[psutil.Process]:
        found = []
        for process in self._metered.processes():
            with contextlib.suppress(psutil.Error):
                if process.name().startswith(BROWSER):
                    found.append(process)
        return found

    def strike(self, path: str) -> None:
        """Kills a renderer, or the browser, when such a page is asked for the first time."""
        kind = path.split("/")[1]
        if kind not in ("crash", "kill") or path in self._struck:
            return
        self._struck.add(path)
        threading.Timer(0.3, self._kill, (kind == "kill",)).start()

    def _kill(self, whole: bool) -> None:
        for process in self._browser():
            with contextlib.suppress(psutil.Error):
                line = process.cmdline()
                is_main = "--remote-debugging-pipe" in line
                if is_main if whole else any("--type=renderer" in word for word in line):
                    process.kill()
                    return


def crawl(work: Path, dsn: str, redis: str, pages: int, *, evil: bool, timeout: float) -> Crawl:
    """Pages that do harm are those of several tasks, one after the other, so that the memory of the
    first and of the last can be compared. Raises RuntimeError when the node fails."""
    node = Node(work, dsn, redis, spiders="benchmarks.browser.spiders", concurrency=64)
    watches: list[Watch] = []
    with Site(lambda path: watches[0].strike(path)) as site, node:
        node.wait_until_known("cards")
        watches.append(watch := Watch(node.run))
        before = node.run.cpu_seconds()
        seconds, size = 0.0, TOGETHER if evil else pages
        for first in range(0, pages, size):
            some = min(size, pages - first)
            task = node.submit(
                "cards", site=site.url, pages=some, first=first, evil=str(evil).lower()
            )
            for counts in node.counts_of(task):
                watch.ended = first + min(some, counts.nf + counts.ne)
                if counts.nr == 0:
                    break
                time.sleep(0.2)
            seconds += node.wait(task, timeout)
            say(
                "browser",
                f"{first + some:,} pages, {seconds:.0f} s, {watch.memory[-1][1] >> 20} MiB",
            )
        cpu = node.run.cpu_seconds() - before
        watch.close()
        node.stop()
    alive = left(watch.seen, ENDS)
    rows, urls, whole, reasons = _ledger(dsn)
    return Crawl(
        pages, seconds, cpu, watch.cpu, watch.memory, rows, urls, whole, reasons, len(alive)
    )


def _ledger(dsn: str) -> tuple[int, int, int, Counter[str]]:
    with contextlib.closing(psycopg2.connect(dsn)) as connection:
        cursor = connection.cursor()
        where = "FROM crawlservice_page WHERE url LIKE 'http%'"
        cursor.execute(f"SELECT count(*), count(DISTINCT url) {where}")
        rows, urls = cursor.fetchone()
        cursor.execute(
            f"SELECT split_part(url, '/', 4), state, reason, count(*) {where} GROUP BY 1, 2, 3"
        )
        reasons = Counter({f"{kind}: {why or 'done'}": n for kind, _, why, n in cursor})
        cursor.execute(
            "SELECT count(*) FROM crawlservice_item WHERE (data ->> 'cards')::int = %s", (CARDS,)
        )
        (whole,) = cursor.fetchone()
    return rows, urls, whole, reasons
