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
    """One moment of a crawl. Sizes in bytes: ``rss`` is the resident memory of a process, ``pss``
    its share of it, which moves when strangers that share a library start and end, and ``uss`` its
    private memory."""

    seconds: float  # since the submission
    pages: int  # done
    queued: int  # requests admitted and not done
    rss: dict[str, int]
    pss: dict[str, int]
    uss: dict[str, int]
    redis: int  # bytes that the server has allocated
    redis_rss: int

    def size(self, name: str) -> int:
        """The private memory of this process; for ``"Redis"``, its allocated memory."""
        return self.redis if name == "Redis" else self.uss[name]


class Growth(NamedTuple):
    """One process after the warm-up."""

    name: str
    first: int  # bytes, at the end of the warm-up
    last: int
    thirds: tuple[int, ...]  # the highest in each third of the time after the warm-up
    slope: float  # bytes per 1,000 pages, by least squares; nan: the crawl was too short


def growth(samples: Sequence[Sample], warm: int) -> list[Growth]:
    """The growth after ``warm`` pages of each process that lived all the time. Empty when the crawl
    was no longer than that."""
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
