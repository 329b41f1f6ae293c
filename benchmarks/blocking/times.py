"""Times: when the ordinary crawl stored pages, and how long it did not."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import pairwise


class Times:
    """Moments at which a page was stored, in seconds of any clock."""

    def __init__(self, moments: Iterable[float]) -> None:
        self._moments = sorted(moments)

    def rate(self, start: float, end: float) -> float:
        """Pages per second between two moments."""
        return len(self._between(start, end)) / (end - start)

    def still(self, start: float, end: float) -> float:
        """The longest time in seconds without a page between two moments."""
        marks = [start, *self._between(start, end), end]
        return max(later - earlier for earlier, later in pairwise(marks))

    def curve(self, start: float, end: float, step: float) -> list[tuple[float, float]]:
        """(seconds since ``start``, pages per second) for each step between two moments."""
        count = int((end - start) / step)
        edges = [start + number * step for number in range(count + 1)]
        return [(low - start, self.rate(low, high)) for low, high in pairwise(edges)]

    def _between(self, start: float, end: float) -> list[float]:
        low, high = bisect_left(self._moments, start), bisect_left(self._moments, end)
        return self._moments[low:high]
