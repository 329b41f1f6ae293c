"""World: a site of pages that change as Poisson processes, watched for some days in simulated time.

Nothing is fetched. Time fresh is exact: each page's changes are drawn, not sampled."""

from __future__ import annotations

import heapq
import math
import random
from dataclasses import dataclass
from typing import Protocol

from tests.revisit.allotment import freshness

MEDIAN, SPREAD = 0.135, 1.6  # changes of a page per day: lognormal
PARETO = 1.2  # of the importance
DAYS = 90
TICK = 0.05  # days between two rounds of visits


@dataclass
class Signals:
    """A sitemap's statements, by ``recall`` and ``precision``. ``lies``: all changed just now."""

    precision: float = 0.8
    recall: float = 0.6
    lies: bool = False


@dataclass
class Site:
    rates: list[float]
    importance: list[float]

    @classmethod
    def of(cls, pages: int = 2000, seed: int = 33) -> Site:
        draw = random.Random(seed)
        both = [
            (draw.lognormvariate(math.log(MEDIAN), SPREAD), draw.paretovariate(PARETO))
            for _ in range(pages)
        ]
        return cls([rate for rate, _ in both], [weight for _, weight in both])

    def fresh(self, visits: list[float]) -> float:
        """The weighted share of time fresh with so many evenly spaced visits per day."""
        pages = zip(self.importance, self.rates, visits, strict=True)
        return sum(w * freshness(r, f) for w, r, f in pages) / sum(self.importance)


class Policy(Protocol):
    """A rule that decides. All times are days."""

    def first(self, page: int) -> float:
        """When the page is due for the first time, having been visited at 0."""

    def visited(self, page: int, now: float, since: float, changed: bool, signal: float) -> float:
        """When it is due next. ``since``: of the last visit. ``signal``: when a sitemap said first
        that it has changed since then; -1 if none did."""

    def signalled(self, page: int, now: float, since: float) -> float:
        """The same, when a sitemap says first that it has changed."""

    def tuned(self, now: float) -> dict[int, float]:
        """Called once a day; returns new due times."""


@dataclass
class Run:
    fresh: float  # weighted share of time
    visits: int


def run(
    site: Site,
    policy: Policy,
    budget: float,
    seed: int = 1,
    signals: Signals | None = None,
) -> Run:
    """Visits due pages, the longest due first, within the budget (visits per day)."""
    draw = random.Random(seed)
    n = len(site.rates)
    visited, version = [0.0] * n, [0] * n
    stale_at = [draw.expovariate(rate) for rate in site.rates]
    said = [-1.0] * n
    queue = [(policy.first(page), page, 0) for page in range(n)]
    heapq.heapify(queue)
    events: list[tuple[float, int, int]] = []

    def plan_signal(page: int) -> None:
        if signals is None:
            return
        if signals.lies:
            heapq.heappush(events, (visited[page] + 1e-6, page, round(visited[page] * 1e6)))
            return
        rate = site.rates[page]
        wrong = signals.recall * rate * (1 - signals.precision) / signals.precision
        first = visited[page] + draw.expovariate(wrong)
        change = stale_at[page]
        while change < first and draw.random() >= signals.recall:
            change += draw.expovariate(rate)
        heapq.heappush(events, (min(first, change), page, round(visited[page] * 1e6)))

    for page in range(n):
        plan_signal(page)
    whole = tokens = 0.0
    visits = 0
    tick = 0
    while (now := tick * TICK) < DAYS:
        tick += 1
        tokens = min(tokens + budget * TICK, max(1.0, budget))
        if tick % round(1 / TICK) == 0:
            for page, due in policy.tuned(now).items():
                version[page] += 1
                heapq.heappush(queue, (due, page, version[page]))
        while events and events[0][0] <= now:
            at, page, of = heapq.heappop(events)
            if of == round(visited[page] * 1e6) and said[page] < 0:
                said[page] = at
                version[page] += 1
                due = policy.signalled(page, at, visited[page])
                heapq.heappush(queue, (due, page, version[page]))
        while tokens >= 1 and queue and queue[0][0] <= now:
            _, page, of = heapq.heappop(queue)
            if of != version[page]:
                continue
            tokens -= 1
            visits += 1
            since, changed = visited[page], stale_at[page] < now
            weight = site.importance[page]
            until = min(stale_at[page], now)
            whole += weight * (until - since)
            due = policy.visited(page, now, since, changed, said[page])
            visited[page], said[page] = now, -1.0
            stale_at[page] = now + draw.expovariate(site.rates[page])
            plan_signal(page)
            version[page] += 1
            heapq.heappush(queue, (due, page, version[page]))
    for page in range(n):
        until = min(stale_at[page], DAYS)
        whole += site.importance[page] * max(0.0, until - visited[page])
    return Run(whole / sum(site.importance) / DAYS, visits)
