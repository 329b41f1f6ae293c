"""Rivals: policies to compare with. All get the budget that the optimal policy has."""

from __future__ import annotations

import random

from tests.revisit.world import Site


class Even:
    """Visits each page as often as ``visits`` says, evenly spaced."""

    def __init__(self, visits: list[float], seed: int = 7) -> None:
        self._every = [1 / some if some > 1e-9 else 1e9 for some in visits]
        self._draw = random.Random(seed)

    def first(self, page: int) -> float:
        return self._every[page] * self._draw.random()

    def visited(self, page: int, now: float, since: float, changed: bool, signal: float) -> float:
        return now + self._every[page]

    def signalled(self, page: int, now: float, since: float) -> float:
        return since + self._every[page]

    def tuned(self, now: float) -> dict[int, float]:
        return {}


def uniform(site: Site, budget: float) -> Even:
    return Even([budget / len(site.rates)] * len(site.rates))


class Nutch(Even):
    """AdaptiveFetchSchedule: the interval grows by 0.4 after a visit that found no change, and
    shrinks by 0.2 after a visit that did. It knows no budget: due pages wait for their turn."""

    GROW, SHRINK, LEAST, MOST = 0.4, 0.2, 60 / 86400, 365.0

    def visited(self, page: int, now: float, since: float, changed: bool, signal: float) -> float:
        factor = 1 - self.SHRINK if changed else 1 + self.GROW
        self._every[page] = min(self.MOST, max(self.LEAST, self._every[page] * factor))
        return now + self._every[page]
