"""Rivals: policies to compare with. All get the budget that the optimal policy has."""

from __future__ import annotations

import random

from benchmarks.revisit.world import Site
from crawlframe.revisit.budget import replanned
from crawlframe.revisit.rates import Belief, Evidence, fit, learn
from tests.revisit.allotment import shares


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


def known_rates(site: Site, budget: float) -> Even:
    """Azar et al., with the true rates."""
    return Even(shares(site.rates, site.importance, budget))


class Nutch(Even):
    """AdaptiveFetchSchedule: the interval grows by 0.4 after a visit that found no change, and
    shrinks by 0.2 after one that did. It knows no budget: what is due waits for its turn."""

    GROW, SHRINK, LEAST, MOST = 0.4, 0.2, 60 / 86400, 365.0

    def visited(self, page: int, now: float, since: float, changed: bool, signal: float) -> float:
        factor = 1 - self.SHRINK if changed else 1 + self.GROW
        self._every[page] = min(self.MOST, max(self.LEAST, self._every[page] * factor))
        return now + self._every[page]


class Learned(Even):
    """A second opinion: Azar et al.'s allotment over the means of what is learned, anew each
    day."""

    def __init__(self, site: Site, budget: float) -> None:
        n = len(site.rates)
        super().__init__([budget / n] * n)
        self._importance, self._budget = site.importance, budget
        self._evidence, self._prior = [Evidence()] * n, Belief(0.5, 5.0)
        self._due = [0.0] * n

    def visited(self, page: int, now: float, since: float, changed: bool, signal: float) -> float:
        self._evidence[page] = learn(self._prior, self._evidence[page], now - since, changed)
        self._due[page] = super().visited(page, now, since, changed, signal)
        return self._due[page]

    def tuned(self, now: float) -> dict[int, float]:
        self._prior = fit(self._prior, self._evidence)
        means = [evidence.over(self._prior).mean for evidence in self._evidence]
        before = self._every
        self._every = [
            1 / some if some > 1e-9 else 1e9
            for some in shares(means, self._importance, self._budget)
        ]
        for page, (old, new) in enumerate(zip(before, self._every, strict=True)):
            self._due[page] = now + replanned(self._due[page] - now, old, new)
        return dict(enumerate(self._due))
