"""Deviation: what is not as it was expected, or not as usual."""

from __future__ import annotations

import math
from typing import NamedTuple

from crawlservice.quality.limits import Limits, MetricRule
from crawlservice.quality.metrics import Key
from crawlservice.quality.norms import Norm


class Deviation(NamedTuple):
    """A finding. ``low``, ``high``: what was expected; ``usual``: the median of the good runs.
    ``since``: Unix time of the first window with it; None: the start of the run. ``unit``: share,
    count, seconds, chars or number."""

    source: str
    monitor: str
    field: str = ""
    subject: str = ""
    unit: str = "share"
    low: float | None = None
    high: float | None = None
    usual: float | None = None
    seen: float = 0.0
    since: float | None = None

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.source, self.monitor, self.field, self.subject


def difference(
    key: Key, rule: MetricRule, norm: Norm, limits: Limits, value: float, since: float | None
) -> Deviation:
    """That a metric is beyond its limits."""
    low, high = limits
    usual = norm.median
    if rule.unit != "share":
        low, high = (None if limit is None else math.exp(limit) for limit in limits)
        usual, value = math.exp(usual), math.exp(value)
    return Deviation("monitor", *key, rule.unit, low, high, usual, value, since)


def text_difference(
    monitor: str, field: str, low: float, usual: float, seen: float, since: float | None = None
) -> Deviation:
    """That the letters or words of a field are too different."""
    return Deviation("monitor", monitor, field, low=low, usual=usual, seen=seen, since=since)
