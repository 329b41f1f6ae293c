"""Optimal: our policy, over pages in memory in place of rows."""

from __future__ import annotations

import random

from crawlframe.revisit.interval import is_near, next_level, replanned
from crawlframe.revisit.rates import Belief, Evidence, fit
from crawlframe.revisit.trust import Times, Trust, due_times, learn_with
from tests.revisit.world import Site

LONGEST = 365.0
FIRST = Belief(0.5, 5.0)


class Optimal:
    def __init__(self, site: Site, budget: float, seed: int = 5) -> None:
        n = len(site.rates)
        self._importance = site.importance
        self._budget = budget
        self._prior, self._level, self._trust = FIRST, 1.0, Trust()
        self._evidence = [Evidence()] * n
        self._times = [Times(1.0, 1.0, 1.0)] * n
        self._due = [0.0] * n
        self._draw = random.Random(seed)
        self._fitted = 0
        self._tune(40)

    def first(self, page: int) -> float:
        self._due[page] = self._times[page].silent * self._draw.random()
        return self._due[page]

    def visited(self, page: int, now: float, since: float, changed: bool, signal: float) -> float:
        interval = now - since
        said = signal - since if signal >= 0 else None
        evidence = self._evidence[page]
        self._trust = self._trust.counted(evidence.over(self._prior), interval, changed, said)
        self._evidence[page] = learn_with(
            self._trust, self._prior, evidence, interval, changed, said
        )
        self._times[page] = self._find(page)
        self._due[page] = now + self._times[page].silent
        return self._due[page]

    def signalled(self, page: int, now: float, since: float) -> float:
        self._due[page] = min(self._due[page], max(now, since + self._times[page].said))
        return self._due[page]

    def tuned(self, now: float) -> dict[int, float]:
        before = [*self._times]
        if round(now) >= 2 * self._fitted:
            self._fitted = round(now)
            for _ in range(20):
                self._prior = fit(self._prior, self._evidence)
        elif is_near(self._demand(), self._budget):
            return {}
        self._tune(2)
        for page, (old, new) in enumerate(zip(before, self._times, strict=True)):
            self._due[page] = now + replanned(self._due[page] - now, old.silent, new.silent)
        return dict(enumerate(self._due))

    def _tune(self, rounds: int) -> None:
        for _ in range(rounds):
            self._times = [self._find(page) for page in range(len(self._times))]
            if is_near(self._demand(), self._budget):
                return
            self._level = next_level(self._level, self._demand(), self._budget)

    def _demand(self) -> float:
        return sum(1 / times.mean for times in self._times)

    def _find(self, page: int) -> Times:
        belief = self._evidence[page].over(self._prior)
        return due_times(belief, self._trust, self._level / self._importance[page], LONGEST)
