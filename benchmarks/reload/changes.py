"""Changes: when each change was made, and its effect on the crawl."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.lab.counted import Answered
from benchmarks.reload.rows import Parses, Row

BEFORE = 1.5  # seconds before a change that are compared with those around it
SETTLE = 3.0  # seconds after the first page by new code until the next change


@dataclass
class Change:
    """One change. Times are in seconds; instants by time.monotonic()."""

    number: int
    how: str  # "edit", "pull", "framework", …
    written: float  # the clock at the last write
    first: float = 0.0  # from then to the first page by new code
    last: float = 0.0  # and to the last page by old code
    gap: float = 0.0  # the longest time without a page from just before the write on
    rate: float = 0.0  # pages per second before the change
    around: float = 0.0  # the rate in the second around that first page, relative to ``rate``
    control: float = 0.0  # the same a second before the change, which shows the noise

    def judge(self, parses: Parses) -> None:
        """Evaluates the pages around it. Raises RuntimeError when nothing did."""
        first, last = parses.first(self.number), parses.last_before(self.number)
        if first is None or last is None:
            raise RuntimeError(f"no page was parsed by code with change {self.number}")
        self.first, self.last = first - self.written, last - self.written
        self.gap = parses.gap(self.written, max(first, last) + 0.5)
        start = self.written - BEFORE
        self.rate = parses.rate(start, self.written)
        earlier = parses.rate(start - BEFORE, start)
        if self.rate and earlier:
            self.around = parses.rate(first - 0.5, first + 0.5) / self.rate
            self.control = parses.rate(start, start + 1) / earlier


@dataclass
class Run:
    """One crawl with changes: ``pages`` parsed and stored, ``fetched`` by the site's count."""

    name: str
    changes: list[Change]
    pages: int = 0
    fetched: int = 0
    twice: int = 0  # fetches of a URL that had been fetched before
    mixed: int = 0  # labels of code versions with rows of different code

    def judge(self, rows: Iterable[Row], answered: Answered) -> None:
        """Takes the pages and the counts of the site."""
        parses = Parses(rows)
        for change in self.changes:
            change.judge(parses)
        self.pages, self.mixed = len(parses), parses.mixed()
        self.fetched = answered.pages
        self.twice = self.fetched - answered.different

    @property
    def lost(self) -> int:
        """Pages that were fetched but not stored."""
        return self.fetched - self.twice - self.pages

    def of(self, how: str) -> list[Change]:
        return [change for change in self.changes if change.how == how]

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "lost": self.lost}


def median(values: Iterable[float]) -> float:
    return statistics.median(values)


def percentile(values: Iterable[float], share: float) -> float:
    """The smallest value that at least this share of all values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]
