"""Deviation: a difference from the author's expectation, or from good runs."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import NamedTuple

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.functions import Now

from crawlframe.errors import CrawlframeError
from crawlservice.models import Finding, Profile
from crawlservice.quality.limits import Limits, MetricRule
from crawlservice.quality.metrics import Key
from crawlservice.quality.norms import Norm


class Deviation(NamedTuple):
    """A finding. ``low``, ``high``: the expected range; ``usual``: the median of the good runs.
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
    """A deviation: a metric beyond its limits."""
    low, high = limits
    usual = norm.median
    if rule.unit != "share":
        low, high = (None if limit is None else math.exp(limit) for limit in limits)
        usual, value = math.exp(usual), math.exp(value)
    return Deviation("monitor", *key, rule.unit, low, high, usual, value, since)


def text_difference(
    monitor: str, field: str, low: float, usual: float, seen: float, since: float | None = None
) -> Deviation:
    """A deviation: letters or words of a field that are too different."""
    return Deviation("monitor", monitor, field, low=low, usual=usual, seen=seen, since=since)


class NothingFound(CrawlframeError):
    """The task has no open finding."""


def open_findings() -> QuerySet[Finding]:
    """Findings that were not accepted, and without a later good run of the same spider with the
    same arguments; with their tasks, the latest first. Raises django.db.Error."""
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
    """Findings of a task, broken expectations first."""
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
