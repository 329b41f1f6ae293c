"""World: a site of pages that change as Poisson processes, watched for some days in simulated time.

Nothing is fetched. Time fresh is exact: each page's changes are drawn, not sampled."""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from crawlframe.revisit.interval import is_near, next_level, replanned
from crawlframe.revisit.rates import Belief, Evidence, fit
from crawlframe.revisit.trust import Times, Trust, due_times, learn_with

MEDIAN, SPREAD = 0.135, 1.6  # changes of a page per day: lognormal
PARETO = 1.2  # of the importance
DAYS = 90
TICK = 0.05  # days between two rounds of visits
LONGEST = 365.0
FIRST = Belief(0.5, 5.0)


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


def shares(rates: Sequence[float], importance: Sequence[float], budget: float) -> list[float]:
    """Visits per unit of time for each page with a known rate, ``budget`` in all: the exact optimum
    of Azar, Horvitz, Lubetzky, Peres, Shahaf: Tractable near-optimal policies for crawling. PNAS
    115 (2018). With visits at random times a page with rate r and visits f is fresh for f / (f + r)
    of the time; the sum over pages, by importance, is greatest where its derivatives are equal for
    all visited pages. Evenly spaced, the same numbers of visits do better still (``freshness``)."""
    order = sorted(range(len(rates)), key=lambda n: rates[n] / importance[n])
    roots = changes = root = 0.0
    for place, n in enumerate(order):
        roots += math.sqrt(importance[n] * rates[n])
        changes += rates[n]
        root = (budget + changes) / roots  # 1 / sqrt(derivative), if only these are visited
        if place + 1 < len(order):
            following = order[place + 1]
            if root * root * importance[following] <= rates[following]:
                break
    return [
        max(0.0, root * math.sqrt(weight * rate) - rate)
        for rate, weight in zip(rates, importance, strict=True)
    ]


def freshness(rate: float, visits: float) -> float:
    """The share of time that a page is unchanged since its last, evenly spaced visit."""
    if visits <= 0:
        return 0.0
    changes = rate / visits
    return -math.expm1(-changes) / changes if changes > 0 else 1.0


class Optimal:
    """Our policy, over pages in memory in place of rows. All times are days."""

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
        """When the page is due for the first time, having been visited at 0."""
        self._due[page] = self._times[page].silent * self._draw.random()
        return self._due[page]

    def visited(self, page: int, now: float, since: float, changed: bool, signal: float) -> float:
        """When it is due next. ``since``: of the last visit. ``signal``: when a sitemap said first
        that it has changed since then; -1 if none did."""
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
        """The same, when a sitemap says first that it has changed."""
        self._due[page] = min(self._due[page], max(now, since + self._times[page].said))
        return self._due[page]

    def tuned(self, now: float) -> dict[int, float]:
        """Called once a day; returns new due times."""
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


@dataclass
class Run:
    fresh: float  # weighted share of time
    visits: int


def run(
    site: Site,
    policy: Optimal,
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
