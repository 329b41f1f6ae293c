"""Allotment: how a budget of visits is divided among pages with known rates of change.

``shares`` is the exact optimum of Azar, Horvitz, Lubetzky, Peres, Shahaf: Tractable near-optimal
policies for crawling. PNAS 115 (2018), in O(n log n). With visits at random times a page with rate
r and visits f is fresh for f / (f + r) of the time; the sum over pages, by importance, is greatest
where its derivatives w r / (f + r)^2 are equal for all visited pages. Evenly spaced, the same
numbers of visits do better still (``freshness``)."""

from __future__ import annotations

import math
from collections.abc import Sequence


def shares(rates: Sequence[float], importance: Sequence[float], budget: float) -> list[float]:
    """Visits per unit of time for each page, ``budget`` in all. Pages that change too often for
    their importance have none. Rates and importance must be positive."""
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
