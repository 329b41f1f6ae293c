"""Rates: how often a page changes, learned from visits that each say whether it has changed.

A page changes as a Poisson process. The belief about its rate is a Gamma distribution: each page
keeps its own evidence, the population the prior. An interval without a change multiplies the
distribution by exp(-rate * interval), which is exact; an interval with a change by 1 - exp(-rate *
interval), after which the Gamma distribution with the same mean and variance is taken (assumed
density filtering). So intervals may be irregular, and several changes between two visits cause no
bias: Cho, Garcia-Molina: Estimating frequency of change. ACM TOIT 3 (2003)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

MIN_SHAPE, MAX_SHAPE = 0.1, 20.0  # of a learned prior
EPSILON = 1e-9  # lower bound of positive values


class Belief(NamedTuple):
    """A Gamma distribution of the rate: its mean is ``shape / time`` changes per unit of time."""

    shape: float
    time: float

    @property
    def mean(self) -> float:
        return self.shape / self.time


class Evidence(NamedTuple):
    """The evidence of one page's visits, added to the prior."""

    shape: float = 0.0
    time: float = 0.0

    def over(self, prior: Belief) -> Belief:
        """The belief about the page's rate."""
        return Belief(max(EPSILON, prior.shape + self.shape), max(EPSILON, prior.time + self.time))


def learn(
    prior: Belief,
    evidence: Evidence,
    interval: float,
    changed: bool,
    *,
    seen_at: float | None = None,
) -> Evidence:
    """The evidence after a visit ``interval`` after the last visit. ``seen_at``: the time from the
    last visit at which the page is known to have changed, if that is known."""
    if interval <= 0:
        return evidence
    shape, time = evidence.over(prior)
    if not changed:
        return Evidence(evidence.shape, evidence.time + interval)
    if seen_at is not None:
        return Evidence(evidence.shape + 1, evidence.time + min(max(seen_at, 0.0), interval))
    # Moments of rate^(shape-1) e^(-time rate) (1 - e^(-interval rate)), in units of `time`.
    step = math.log1p(interval / time)

    def rest(k: int) -> float:  # 1 - (time / (time + interval)) ** (shape + k)
        return -math.expm1(-(shape + k) * step)

    none = rest(0)
    mean = shape * rest(1) / none
    square = shape * (shape + 1) * rest(2) / none
    variance = max(square - mean * mean, EPSILON * square)
    new = Belief(mean * mean / variance, time * mean / variance)
    return Evidence(new.shape - prior.shape, new.time - prior.time)


def fit(prior: Belief, pages: Iterable[Evidence]) -> Belief:
    """The prior under which the population is most likely, one step from ``prior`` (expectation
    maximisation): the Gamma distribution with the mean rate and the mean logarithm of the rate that
    the pages have together. Without pages it stays."""
    n, means, logs = 0, 0.0, 0.0
    for evidence in pages:
        shape, time = evidence.over(prior)
        n += 1
        means += shape / time
        logs += digamma(shape) - math.log(time)
    if not n or means <= 0:
        return prior
    mean = means / n
    spread = math.log(mean) - logs / n  # ln(shape) - digamma(shape) of the new one
    shape = _shape_of(spread)
    return Belief(shape, shape / mean)


def _shape_of(spread: float) -> float:
    """Solves ln(shape) - digamma(shape) = spread, which falls with the shape."""
    low, high = MIN_SHAPE, MAX_SHAPE
    for _ in range(40):
        middle = math.sqrt(low * high)
        if math.log(middle) - digamma(middle) > spread:
            low = middle
        else:
            high = middle
    return low


def digamma(x: float) -> float:
    """The derivative of ln(gamma(x)) for x > 0, to about 1e-10."""
    result = 0.0
    while x < 8:
        result -= 1 / x
        x += 1
    inverse = 1 / (x * x)
    series = inverse * (1 / 12 - inverse * (1 / 120 - inverse * (1 / 252 - inverse / 240)))
    return result + math.log(x) - 0.5 / x - series
