"""Budget: the level of gain at which the visits of all pages together are as many as allowed."""

from __future__ import annotations

import math

TOLERANCE = 0.05  # difference of demand and budget (of their logarithms) that is left as it is
POWER = 1.5  # demand falls with the level to a power of about -1/2 to -1
STEP = 8.0  # factor of the largest change of a level at a time
# A budget may be out of reach at any level, because intervals are neither shorter nor longer than
# some time: below and above these levels, nothing changes.
MIN_LEVEL, MAX_LEVEL = 1e-12, 1e18


def is_near(demand: float, budget: float) -> bool:
    """Whether the level may stay. Demand and budget are visits per unit of time; demand is the sum
    of the pages' inverse mean intervals."""
    return demand <= 0 or abs(math.log(demand / budget)) < TOLERANCE


def next_level(level: float, demand: float, budget: float) -> float:
    """A level at which demand is nearer to the budget, for which all pages have to be planned
    again."""
    if demand <= 0:
        return level
    factor = min(STEP, max(1 / STEP, math.pow(demand / budget, POWER)))
    return min(MAX_LEVEL, max(MIN_LEVEL, level * factor))


def replanned(left: float, before: float, after: float) -> float:
    """Time until a page is due, when its interval changes: the same share of it. So pages that were
    last visited together do not fall due together."""
    return max(0.0, left) * after / before if before > 0 else after
