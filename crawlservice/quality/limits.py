"""Limits: how far a metric may be from its norm, and whether a sample is beyond that, and not by
chance."""

from __future__ import annotations

import math
from typing import NamedTuple

from crawlservice.quality.metrics import Metric
from crawlservice.quality.norms import Norm

SURE_ERRORS = 4.0  # standard errors between a sample and a limit that it breaks
SPREADS = 5.0  # standard deviations of the good runs that are still usual
PART_SHARE = 0.05  # share of a part that is missed when it is gone
LETTERS, LETTERS_N = 0.1, 40.0  # distance of letters that matters, and more in few letters
WORDS = 0.1  # overlap of words that says something

Limits = tuple[float | None, float | None]


class MetricRule(NamedTuple):
    """The permitted difference of a metric. ``floor``: the least difference that matters, in shares
    or in logarithms; of shares near 0 a half of the median. ``below``, ``above``: which side is
    wrong. ``gone``: only if almost none is left. ``alike``: only with equal arguments."""

    floor: float
    below: bool = False
    above: bool = False
    unit: str = "share"
    gone: bool = False
    alike: bool = False


RULES = {
    "filled": MetricRule(0.05, below=True),
    "kind": MetricRule(0.1, below=True),
    "zero": MetricRule(0.1, above=True),
    "broken": MetricRule(0.03, above=True),
    "top": MetricRule(0.25, above=True),
    "distinct": MetricRule(0.15, below=True),
    "choice": MetricRule(0, below=True, gone=True, alike=True),
    "section": MetricRule(0, below=True, gone=True, alike=True),
    "status": MetricRule(0.05, above=True),
    "errors": MetricRule(0.05, above=True),
    "value": MetricRule(math.log(2), below=True, above=True, unit="number", alike=True),
    "length": MetricRule(math.log(1.8), below=True, above=True, unit="chars", alike=True),
    "yield": MetricRule(math.log(1.2), below=True, unit="count", alike=True),
}


def limits_of(rule: MetricRule, norm: Norm, *, whole: bool) -> Limits:
    """The limits of usual values. ``whole``: of a whole run; else of a part of a run."""
    if rule.gone:
        few = 0.25 * norm.median
        seldom = norm.median < PART_SHARE or norm.least < 0.4 * norm.median
        if seldom or (not whole and norm.low < few):
            return None, None
        return few, None
    floor = rule.floor
    if rule.unit == "share" and rule.below:
        floor = min(floor, norm.median / 2)
    wide = max(floor, SPREADS * norm.spread)
    low: float | None = None
    high: float | None = None
    if rule.below:
        low = min(norm.median - wide, norm.least - floor / 2)
        low = low if whole else min(low, norm.low - floor)
    if rule.above:
        high = max(norm.median + wide, norm.most + floor / 2)
        high = high if whole else max(high, norm.high + floor)
    return low, high


def is_beyond(metric: Metric, limits: Limits) -> bool:
    low, high = limits
    value, n, error = metric
    if error is not None:
        return (low is not None and value + SURE_ERRORS * error < low) or (
            high is not None and value - SURE_ERRORS * error > high
        )
    return (low is not None and highest(value, n) < low) or (
        high is not None and lowest(value, n) > high
    )


def evidence(metric: Metric, limits: Limits) -> float:
    """How much likelier a sample is than it would be at the limit it is beyond: the logarithm of
    the likelihood ratio."""
    low, high = limits
    value, n, error = metric
    limit = low if low is not None and value < low else high
    assert limit is not None
    if error is not None:
        return ((value - limit) / error) ** 2 / 2
    found = 0.0
    for seen, expected in ((value, limit), (1 - value, 1 - limit)):
        if seen > 0:
            found += seen * math.log(seen / max(expected, 1e-9))
    return n * found


def highest(share: float, n: int) -> float:
    """The greatest share that a sample is in keeping with, by the interval of Wilson (Probable
    Inference, the Law of Succession, and Statistical Inference, Journal of the American Statistical
    Association 22, 1927)."""
    return 1 - lowest(1 - share, n)


def lowest(share: float, n: int) -> float:
    square = SURE_ERRORS * SURE_ERRORS
    middle = share + square / (2 * n)
    half = SURE_ERRORS * math.sqrt(max(0.0, share * (1 - share) / n + square / (4 * n * n)))
    return max(0.0, (middle - half) / (1 + square / n))
