"""Growth: samples of memory over a crawl, and their evaluation."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

THIRDS = 3
ENOUGH = 30  # samples after the warm-up that suffice for a slope
SETTLED = 200_000  # pages after which a worker has filled its memory of links


class Sample(NamedTuple):
    """One moment of a crawl. Sizes in bytes: ``rss`` is what a process has in memory, ``pss`` its
    share of it, which moves when strangers start and end that share a library, and ``uss`` what
    only it has."""

    seconds: float  # since the submission
    pages: int  # done
    queued: int  # requests admitted and not done
    rss: dict[str, int]
    pss: dict[str, int]
    uss: dict[str, int]
    redis: int  # what the server has allocated
    redis_rss: int

    def size(self, name: str) -> int:
        """What only this process has; of ``"Redis"``, what it has allocated."""
        return self.redis if name == "Redis" else self.uss[name]


class Growth(NamedTuple):
    """One process after the warm-up."""

    name: str
    first: int  # bytes, at the end of the warm-up
    last: int
    thirds: tuple[int, ...]  # the highest in each third of the time after the warm-up
    slope: float  # bytes per 1,000 pages, by least squares; nan: the crawl was too short


def growth(samples: Sequence[Sample], warm: int) -> list[Growth]:
    """What each process that lived all the time did after ``warm`` pages. Empty when the crawl was
    no longer than that."""
    kept = [sample for sample in samples if sample.pages >= warm]
    if len(kept) < THIRDS:
        return []
    names = [name for name in kept[0].uss if all(name in sample.uss for sample in kept)]
    pages = [sample.pages for sample in kept]
    found = []
    for name in [*names, "Redis"]:
        sizes = [sample.size(name) for sample in kept]
        cuts = [len(sizes) * third // THIRDS for third in range(THIRDS + 1)]
        thirds = tuple(max(sizes[cuts[n] : cuts[n + 1]]) for n in range(THIRDS))
        slope = math.nan
        if warm >= SETTLED and len(kept) >= ENOUGH:
            slope = 1000 * statistics.linear_regression(pages, sizes).slope
        found.append(Growth(name, sizes[0], sizes[-1], thirds, slope))
    return found


def at_peak(samples: Sequence[Sample]) -> Sample:
    """The moment when the queue was longest."""
    return max(samples, key=lambda sample: sample.queued)


def per_request(samples: Sequence[Sample]) -> tuple[float, float]:
    """Bytes in Redis for each URL seen, and for each queued request beyond that: from the moments
    when the server was empty, when the queue was longest, and when it was shortest at the end."""
    empty, peak = samples[0], at_peak(samples)
    end = min((s for s in samples if s.seconds >= peak.seconds), key=lambda sample: sample.queued)
    # used = empty + seen * (pages + queued) + queue * queued, at two moments
    a, b = peak.pages + peak.queued, peak.queued
    c, d = end.pages + end.queued, end.queued
    x, y = peak.redis - empty.redis, end.redis - empty.redis
    if (divisor := a * d - b * c) == 0:
        return math.nan, math.nan
    return (x * d - b * y) / divisor, (a * y - c * x) / divisor
