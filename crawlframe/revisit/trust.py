"""Trust: the weight of a sitemap's statement that a page of its host has changed (lastmod).

A sitemap is taken to state each change with one probability, ``recall``, and to be wrong sometimes.
Each visit shows whether a statement is true. A sitemap that always says "now" is found out: as many
of its pages are unchanged as without it, so it is ignored. Signals of changes that may be missing
or wrong: Kolobov, Peres, Lu, Horvitz: Staying up to date with online content changes. NeurIPS
2019."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from crawlframe.revisit.interval import due_after, fresh_time, survival
from crawlframe.revisit.rates import Belief, Evidence, learn

TRUST_RATIO = 0.7  # of ``doubt``, below which a host is listened to
CAUTION = 10.0  # unchanged pages at the start of trust, as if no statement were true
MAX_RECALL = 0.95  # of ``recall``
SEARCHES = 40  # halvings of an interval
TOLERANCE = 0.02  # relative
# Gauss-Legendre quadrature on (0, 1): places and weights, symmetrical.
_HALF = (
    (0.0198550717512319, 0.0506142681451881), (0.1016667612931866, 0.1111905172266872),
    (0.2372337950418355, 0.1568533229389436), (0.4082826787521751, 0.1813418916891810),
)  # fmt: skip
PLACES = (*_HALF, *((1 - place, weight) for place, weight in _HALF))


class Trust(NamedTuple):
    """Evidence of a host's visits. ``said``: visits of pages that its sitemap had called changed;
    ``wrong``: how many found the page unchanged; ``due_wrong``: how many would if statements meant
    nothing; ``expected``: changes that were expected in the times until a statement, or until the
    visit."""

    said: float = 0.0
    wrong: float = 0.0
    due_wrong: float = 0.0
    expected: float = 0.0

    @property
    def doubt(self) -> float:
        """The factor by which the probability of an unchanged page shrinks when the sitemap says
        that it has changed."""
        return min(1.0, (self.wrong + CAUTION) / (self.due_wrong + CAUTION))

    @property
    def is_worth(self) -> bool:
        return self.doubt < TRUST_RATIO

    @property
    def per_change(self) -> float:
        """The number of changes that the sitemap states, per expected change."""
        return (self.said + 1) / (self.expected + 2)

    @property
    def recall(self) -> float:
        """The share of changes that the sitemap states; 0 where it is ignored."""
        return min(MAX_RECALL, self.per_change * (1 - self.doubt)) if self.is_worth else 0.0

    def counted(self, belief: Belief, interval: float, changed: bool, said: float | None) -> Trust:
        """The trust after another visit. ``said``: time from the last visit to the statement."""
        if said is None:
            return self._replace(expected=self.expected + belief.mean * interval)
        return Trust(
            self.said + 1,
            self.wrong + (not changed),
            self.due_wrong + survival(belief, interval),
            self.expected + belief.mean * min(said, interval),
        )


def learn_with(
    trust: Trust,
    prior: Belief,
    evidence: Evidence,
    interval: float,
    changed: bool,
    said: float | None,
) -> Evidence:
    """As ``learn``, where a change without a statement is one of the fewer that the sitemap keeps
    quiet about, and a stated change has its time."""
    recall = trust.recall
    if not recall or not changed:
        return learn(prior, evidence, interval, changed)
    if said is not None:
        return learn(prior, evidence, interval, changed, seen_at=recall * said)
    heard = evidence._replace(time=evidence.time + recall * interval)
    return learn(prior, heard, (1 - recall) * interval, changed)


class Times(NamedTuple):
    """When a page is due after its last visit: without a statement, and when the sitemap says that
    it has changed. ``mean`` is the expected interval."""

    silent: float
    said: float
    mean: float


def due_times(belief: Belief, trust: Trust, wanted: float, longest: float) -> Times:
    """``wanted`` and ``longest`` as in ``due_after``."""
    if not trust.is_worth:
        interval = due_after(belief, wanted, longest)
        return Times(interval, interval, interval)
    recall, doubt = trust.recall, trust.doubt

    def lacks_silent(time: float) -> bool:
        return _quiet_time(belief, recall, time) - time * _quiet(belief, recall, time) < wanted

    def lacks_said(time: float) -> bool:
        fresh = doubt * _quiet(belief, recall, time)
        return _quiet_time(belief, recall, time) - time * fresh < wanted

    silent = _search(lacks_silent, due_after(belief, wanted, longest), longest)
    said = _search(lacks_said, min(wanted, silent), silent)
    spoken = Belief(belief.shape, belief.time / trust.per_change)
    mean = said + fresh_time(spoken, silent) - fresh_time(spoken, said)
    return Times(silent, said, max(mean, said))


def _quiet(belief: Belief, recall: float, time: float) -> float:
    """The probability that a page without a statement for so long is unchanged."""
    unit = belief.time
    return math.exp(belief.shape * math.log((unit + recall * time) / (unit + time)))


def _quiet_time(belief: Belief, recall: float, time: float) -> float:
    """The integral of ``_quiet``. The places are dense at the start, where it falls."""
    whole = math.log1p(time / belief.time)
    total = 0.0
    for place, weight in PLACES:
        grown = math.exp(place * whole)
        total += weight * grown * _quiet(belief, recall, belief.time * (grown - 1))
    return total * whole * belief.time


def _search(lacks: Callable[[float], bool], low: float, high: float) -> float:
    """The least time between these at which it does not lack, by halving its logarithm."""
    if lacks(high):
        return high
    for _ in range(SEARCHES):
        if high <= low * (1 + TOLERANCE):
            break
        middle = math.sqrt(low * high)
        if lacks(middle):
            low = middle
        else:
            high = middle
    return high
