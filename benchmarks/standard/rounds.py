"""Rounds: every entry in turn, repeatedly, and the failures."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.lab import results, venv
from benchmarks.lab.job import say
from benchmarks.standard.entries import Entry, in_turn
from benchmarks.standard.figures import Figures, Round, figures
from benchmarks.standard.runs import Bench, Failed, Result
from benchmarks.standard.site import Site

JOB = "standard"
FEW = 10_000  # pages
# Packages of an environment whose versions matter to a reader.
TOLD = (
    "can_ada", "crawlee", "httpx", "impit", "lxml", "parsel", "psycopg2-binary",
    "pycurl", "redis", "scrapy", "scrapy-redis", "selectolax", "twisted", "uvloop",
)  # fmt: skip


class Rounds:
    """``failures`` are one line for each run that does not count. An entry that fails in the
    warm-up takes no further part."""

    def __init__(self, pages: int, entries: Sequence[Entry], work: Path) -> None:
        self.pages = pages
        self.done: list[Round] = []
        self.failures: list[str] = []
        self.machine = results.machine()
        self.versions = {"Python, the same for all": str(self.machine["python"])}
        self._entries = [*entries]
        self._work = work

    def run(self, count: int) -> None:
        """Runs all. Raises the errors of servers that cannot be started."""
        what = ", ".join(entry.label for entry in self._entries)
        say(JOB, f"{self.pages:,} pages, {results.counted(count, 'round')} of {what}")
        if self.pages < FEW:
            say(JOB, f"with fewer than {FEW:,} pages, starting up counts for much of each figure")
        ready = [entry for entry in self._entries if self._install(entry)]
        with Bench(self.pages, self._work) as bench:
            servers = (bench.nginx.version(), bench.redis.version(), bench.postgres.version())
            self.versions["servers"] = f"{', '.join(servers)} with fsync; all on loopback"
            warm = bench.warm_site
            ready = [entry for entry in ready if self._one(bench, entry, warm, "warm-up")]
            for number in range(count):
                self.done.append({})
                for entry in in_turn(ready, number, count):
                    name = f"round {number + 1} of {count}"
                    if result := self._one(bench, entry, bench.site, name):
                        self.done[-1][entry.label] = result

    def figures(self) -> list[Figures]:
        """The entries that did the job at least once."""
        return figures(self.done, self._entries)

    def _install(self, entry: Entry) -> bool:
        if not entry.folder or entry.folder in self.versions:
            return True
        try:
            python = entry.python()
        except (OSError, RuntimeError) as error:
            self.failures.append(f"{entry.label}: {error}")
            return False
        found = venv.versions(python)
        named = (f"{name} {found[name]}" for name in TOLD if name in found)
        self.versions[entry.folder] = ", ".join(named)
        return True

    def _one(self, bench: Bench, entry: Entry, site: Site, name: str) -> Result | None:
        started = time.monotonic()
        try:
            result = bench.run(entry, site)
        except Failed as failed:
            self.failures.append(f"{entry.label} in {name}: {failed}")
            say(JOB, f"{name}: {entry.label} FAILED: {failed}")
            return None
        cpu, rate = result.cpu / result.pages * 1000, result.pages / result.seconds
        took = time.monotonic() - started
        say(JOB, f"{name}: {entry.label} {cpu:.3f} ms/page, {rate:.0f} pages/s ({took:.0f} s)")
        return result
