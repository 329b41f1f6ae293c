"""Interval: when a page is worth its next visit, by the belief about its rate of change.

With evenly spaced visits at an interval of I, a page is fresh for G(I) / I of the time, where G(I)
is the integral of the probability s(t) that it has not changed t after its visit. One more visit
per unit of time gains w (G(I) - I s(I)), w being its importance; where that is equal for all pages,
the budget is best spent (Cho, Garcia-Molina: Effective page refresh policies. ACM TODS 28, 2003,
and Azar et al. for visits at random times). Here s is the mean over a Gamma distribution of the
rate, (1 + t / time) ** -shape, so pages with little evidence are visited to learn more: as long as
a rate near 0 is possible, the gain grows without bound.

The gain that is wanted is the level of a budget: it is moved until the visits of all pages together
are as many as allowed."""

from __future__ import annotations

import math

from crawlframe.revisit.rates import Belief

STEPS = 60  # of the search, at most
TOLERANCE = 1e-4  # relative
SMALL_GAP = 0.05  # difference of demand and budget (of their logarithms) that is left as it is
POWER = 1.5  # demand falls with the level to a power of about -1/2 to -1
MAX_STEP = 8.0  # factor of the largest change of a level at a time
# A budget may be out of reach at any level, because intervals are neither shorter nor longer than
# some time: below and above these levels, nothing changes.
MIN_LEVEL, MAX_LEVEL = 1e-12, 1e18


def survival(belief: Belief, time: float) -> float:
    """The probability that the page has not changed for so long."""
    return math.exp(-belief.shape * math.log1p(time / belief.time))


def fresh_time(belief: Belief, time: float) -> float:
    """The part of this time, on average, that the page is unchanged."""
    shape, unit = belief
    if abs(shape - 1) < 1e-6:
        return unit * math.log1p(time / unit)
    return unit * math.expm1((1 - shape) * math.log1p(time / unit)) / (1 - shape)


def gain(belief: Belief, interval: float) -> float:
    """The gain in fresh time of one more visit per unit of time, at this interval."""
    return fresh_time(belief, interval) - interval * survival(belief, interval)


def due_after(belief: Belief, wanted: float, longest: float) -> float:
    """The interval at which the gain is ``wanted``, the level of the budget over the importance;
    at most ``longest``."""
    shape, unit = belief
    target = wanted / unit
    if gain(belief, longest) <= wanted:
        return longest
    # gain/unit is about shape x^2 / 2 for a small x = interval / unit; it is concave in ln x later.
    x = min(math.sqrt(2 * target / shape), longest / unit)
    low, high = 0.0, longest / unit
    for _ in range(STEPS):
        power = math.exp(-shape * math.log1p(x))
        whole = math.log1p(x) if abs(shape - 1) < 1e-6 else ((1 + x) * power - 1) / (1 - shape)
        value = whole - x * power
        if value < target:
            low = x
        else:
            high = x
        if abs(value - target) <= TOLERANCE * target:
            break
        slope = x * shape * power / (1 + x)  # d value / d x
        step = x * math.exp(min(3.0, max(-3.0, (target - value) / (slope * x)))) if slope else 0.0
        x = step if low < step < high else 0.5 * (low + high) if high else x
    return min(longest, x * unit)


def is_near(demand: float, budget: float) -> bool:
    """Whether the level may stay. Demand and budget are visits per unit of time; demand is the sum
    of the pages' inverse mean intervals."""
    return demand <= 0 or abs(math.log(demand / budget)) < SMALL_GAP


def next_level(level: float, demand: float, budget: float) -> float:
    """A level at which demand is nearer to the budget, for which all pages have to be planned
    again."""
    if demand <= 0:
        return level
    factor = min(MAX_STEP, max(1 / MAX_STEP, math.pow(demand / budget, POWER)))
    return min(MAX_LEVEL, max(MIN_LEVEL, level * factor))


def replanned(left: float, before: float, after: float) -> float:
    """Time until a page is due, when its interval changes: the same share of it. So pages that were
    last visited together do not fall due together."""
    return max(0.0, left) * after / before if before > 0 else after
