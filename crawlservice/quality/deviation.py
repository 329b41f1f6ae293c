"""Deviation: what is not as it was expected, or not as usual.

Limits: how far a metric may be from what is usual, and whether a sample is beyond that, and not
by chance.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import NamedTuple

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.functions import Now

from crawlframe.errors import CrawlframeError
from crawlservice.models import Finding, Profile
from crawlservice.quality.metrics import Key, Metric
from crawlservice.quality.norms import Norm

SURE_ERRORS = 4.0  # standard errors by which a sample must be beyond a limit
SPREADS = 5.0  # standard deviations of the good runs that are still usual
PART_SHARE = 0.05  # share of a part that is missed when it is gone
LETTERS, LETTERS_N = 0.1, 40.0  # distance of letters that matters, and more in few letters
WORDS = 0.1  # overlap of words that says something
Limits = tuple[float | None, float | None]


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


class NothingFound(CrawlframeError):
    """The task has no open finding."""


def open_findings() -> QuerySet[Finding]:
    """Findings that nobody has accepted, and after which no run of the same spider with the same
    arguments was good; with their tasks, the latest first. Raises django.db.Error."""
    of_task = Profile.objects.filter(task=OuterRef("task"))
    later = Profile.objects.filter(
        good=True,
        spider=OuterRef("spider"),
        arguments_hash=OuterRef("hash"),
        task__gt=OuterRef("task"),
    )
    rows = Finding.objects.filter(accepted_at=None).alias(hash=of_task.values("arguments_hash")[:1])
    rows = rows.filter(~Exists(later)).select_related("task").defer("task__seeds")
    return rows.order_by("-pk")


def of_task(task: int) -> list[Finding]:
    """What the author expected first."""
    return [*Finding.objects.filter(task=task).order_by("source", "pk")]


def counts_of(tasks: Collection[int]) -> dict[int, int]:
    """The number of findings of those tasks that have some."""
    counts: dict[int, int] = {}
    for task in Finding.objects.filter(task__in=tasks).values_list("task", flat=True):
        counts[task] = counts.get(task, 0) + 1
    return counts


@transaction.atomic
def accept(task: int) -> int:
    """Accepts the findings of an ended task: it is good, and later runs are compared with it and
    those after it, no longer with earlier ones. Returns how many there were. Raises
    NothingFound."""
    profile = Profile.objects.select_for_update().filter(task=task, judged=True).first()
    rows = Finding.objects.filter(task=task, accepted_at=None)
    found = rows.update(accepted_at=Now()) if profile else 0
    if not found or profile is None:
        raise NothingFound(f"task {task} has no findings that can be accepted: it runs, or is good")
    profile.good = profile.baseline = True
    profile.save(update_fields=["good", "baseline"])
    return found


class MetricRule(NamedTuple):
    """How a metric may differ. ``floor``: the least difference that matters, in shares or in
    logarithms; of shares near 0 a half of the median. ``below``, ``above``: which side is wrong.
    ``gone``: only if hardly anything is left. ``alike``: only with runs of the same arguments."""

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
    """What is still usual. ``whole``: of a whole run; else of a part of one."""
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
