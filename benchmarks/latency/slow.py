"""The standard job on a site that answers each request after 200 ms."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from benchmarks.lab.counted import CountedSite
from benchmarks.standard.entries import Entry
from benchmarks.standard.runs import Bench, Result
from benchmarks.standard.site import FEWEST, Site

LATENCY = 0.2  # seconds


class Crawl(NamedTuple):
    """One entry with this many requests in flight, in one process."""

    result: Result
    in_flight: int
    steady: float  # pages/s counted by the site, without the first and last tenth of pages
    twice: int  # pages answered beyond one each
    site_cpu: float  # seconds

    @property
    def ideal(self) -> float:
        """Pages per second if all requests in flight are always in use."""
        return self.in_flight / LATENCY

    @property
    def whole(self) -> float:
        """Pages per second from the first request to the last row."""
        return self.result.pages / self.result.seconds


class SlowBench:
    """The servers of the standard job, with its site behind a latency. Use it as a context manager.

    Raises the errors of servers that cannot be started."""

    def __init__(self, pages: int, work: Path) -> None:
        root = work / "slow"
        self.site = CountedSite(root, LATENCY)
        self._job = Site(pages, self.site.url)
        self._job.write(root)
        self._bench = Bench(FEWEST, work)

    def run(self, entry: Entry, in_flight: int) -> Crawl:
        """Raises Failed when it does not do the whole job."""
        self.site.take()
        before = self.site.cpu_seconds()
        result = self._bench.run(entry._replace(in_flight=in_flight), self._job)
        answered = self.site.take()
        twice = answered.pages - self._job.pages
        site_cpu = self.site.cpu_seconds() - before
        return Crawl(result, in_flight, answered.steady(), twice, site_cpu)

    def __enter__(self) -> SlowBench:
        self._bench.__enter__()
        try:
            self.site.__enter__()
        except BaseException:
            self._bench.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.site.__exit__(*error)
        self._bench.__exit__(*error)
