"""Norms: the usual values of metrics, from the good runs that a run is compared with.

These are the runs with the same arguments and settings, if there are enough. Otherwise all good
runs of the spider: then only metrics that do not depend on the site are compared, such as the
fields that have values."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import median
from typing import NamedTuple

import msgspec
from django.db.models import QuerySet

from crawlservice.models import Profile, Task
from crawlservice.quality.metrics import Key, metrics
from crawlservice.quality.profile import Content, merged
from crawlservice.quality.run import PARTS, Range, RunStats, decode, is_prose, key_of, word_shares
from crawlservice.quality.texts import distance, overlap, shares

RUNS = 10  # good runs that are compared with
MIN_RUNS = 3  # good runs without which nothing is compared
MIN_SCATTER = 0.25  # least scatter of pages with one item: that all had one proves little
SCALE = 1.4826  # from the median absolute deviation to the standard deviation
ABSENT = (
    *PARTS,
    "choice",
    "kind",
    "status",
    "zero",
    "broken",
)  # monitors that are 0 in a run without a value


class Totals(NamedTuple):
    """Numbers that can be compared when a run has ended."""

    items: int
    pages: int
    seconds: float | None


class Good(NamedTuple):
    """A good run, as it is compared."""

    task: int
    run: RunStats
    totals: Totals


class Norm(NamedTuple):
    """A metric in the good runs: their median, its spread (a standard deviation, roughly), and the
    extremes of the runs and of their steps."""

    median: float
    spread: float
    least: float
    most: float
    low: float
    high: float
    runs: int


class Texts(NamedTuple):
    """The letters and words of a field: shares, and how far single runs are from all."""

    letters: dict[int, float]
    apart: float
    words: dict[str, float]
    overlap: float


class Norms(NamedTuple):
    """``steps``: the extremes of the steps of all runs, without metrics that too few runs have.
    ``scatter``: the coefficient of variation of the items of a page. ``alike``: the runs had the
    same arguments, so all metrics can be compared."""

    metrics: dict[Key, Norm]
    steps: dict[Key, tuple[float, float]]
    scatter: float
    texts: dict[str, Texts]
    totals: list[Totals]  # the latest first
    alike: bool
    runs: int


NONE = Norms({}, {}, 0.0, {}, [], False, 0)


def norms_of(good: Sequence[Good], *, alike: bool) -> Norms:
    """``good``: the latest first. Norms without content if there are fewer than MIN_RUNS."""
    if len(good) < MIN_RUNS:
        return NONE
    contents = [one.run.content() for one in good]
    found: dict[Key, list[float]] = defaultdict(list)
    for content in contents:
        for key, metric in metrics(content).items():
            found[key].append(metric.value)
    steps = _extremes([one.run.steps for one in good])
    usual = {}
    for key, values in found.items():
        if key.monitor in ABSENT:
            values = values + [0.0] * (len(good) - len(values))
        if len(values) >= MIN_RUNS:
            usual[key] = _norm(values, steps.get(key))
    return Norms(
        metrics=usual,
        steps=steps,
        scatter=max(map(_scatter, contents)),
        texts=_texts(contents),
        totals=[one.totals for one in good],
        alike=alike,
        runs=len(good),
    )


def _extremes(runs: Sequence[Mapping[str, Range]]) -> dict[Key, tuple[float, float]]:
    """The ranges that at least MIN_RUNS runs have."""
    found: dict[str, list[Range]] = defaultdict(list)
    for ranges in runs:
        for name, known in ranges.items():
            found[name].append(known)
    return {
        key_of(name): (min(one.low for one in some), max(one.high for one in some))
        for name, some in found.items()
        if len(some) >= MIN_RUNS
    }


def _scatter(content: Content) -> float:
    """The coefficient of variation of the items of its pages; at least a Poisson variable's."""
    done = content.pages - content.errors
    if done <= 0 or not content.yielded:
        return MIN_SCATTER
    mean = content.yielded / done
    found = math.sqrt(max(0.0, content.squares / done - mean * mean)) / mean
    return max(found, MIN_SCATTER / math.sqrt(max(1.0, mean)))


def norm_of(values: Sequence[float]) -> Norm:
    return _norm(values, None)


def _norm(values: Sequence[float], steps: tuple[float, float] | None) -> Norm:
    middle = median(values)
    spread = SCALE * median(abs(value - middle) for value in values)
    least, most = min(values), max(values)
    low, high = steps or (least, most)
    return Norm(middle, spread, least, most, min(low, least), max(high, most), len(values))


def _texts(contents: Sequence[Content]) -> dict[str, Texts]:
    whole = merged(*contents)
    found = {}
    for name, field in whole.fields.items():
        if not is_prose(field):
            continue
        letters, words = shares(field.letters), word_shares(field)
        apart, overlaps = 0.0, []
        for content in contents:
            own = content.fields.get(name)
            if own is not None and own.letters:
                apart = max(apart, distance(shares(own.letters), letters))
            if own is not None and own.tokens:
                overlaps.append(overlap(word_shares(own), words))
        found[name] = Texts(letters, apart, words, min(overlaps, default=0.0))
    return found


# -- the good runs of a task -----------------------------------------------------------------------


class History(msgspec.Struct, frozen=True):
    """``last_good``: the latest good task, 0 if there is none; ``version``: the code that ran most
    of it."""

    norms: Norms
    last_good: int = 0
    version: str = ""


def history_of(task: Task) -> History:
    """The good runs before a task. Raises django.db.Error."""
    of_spider = Profile.objects.filter(good=True, spider=task.spider, task__lt=task.pk)
    same = _good(of_spider.filter(arguments_hash=task.arguments_hash))
    good, alike = same, True
    if len(same) < MIN_RUNS:
        good, alike = _good(of_spider), False
    if not good:
        return History(NONE)
    last = (same or good)[0]
    return History(norms_of(good, alike=alike), last.task, last.run.content().version)


def _good(rows: QuerySet[Profile]) -> list[Good]:
    """Good runs, the latest first, back to the last run that was accepted."""
    found = []
    rows = rows.select_related("task").defer("task__seeds", "task__arguments")
    rows = rows.exclude(content=b"")
    for profile in rows.order_by("-task_id")[:RUNS]:
        try:
            run = decode(profile.content)
        except msgspec.MsgspecError:  # of a newer release
            continue
        found.append(Good(profile.task_id, run, totals_of(profile.task, profile.seconds)))
        if profile.baseline:
            break
    return found


def forget_old(profile: Profile) -> None:
    """Empties the profiles that no later run with these arguments will be compared with."""
    same = Profile.objects.filter(spider=profile.spider, arguments_hash=profile.arguments_hash)
    good = same.filter(good=True).exclude(content=b"").order_by("-task_id")
    kept = [*good.values_list("pk", flat=True)[:RUNS]]
    if len(kept) == RUNS:
        old = same.filter(judged=True, task__lt=profile.task_id).exclude(content=b"")
        rows = old.exclude(pk__in=kept).order_by("-task_id").values_list("pk", flat=True)
        same.filter(pk__in=[*rows[RUNS:][:100]]).update(content=b"")


def totals_of(task: Task, seconds: float | None) -> Totals:
    """The totals of a task that has ended."""
    pages = max(0, task.na - 1 - task.cancelled - task.excluded)
    return Totals(task.items, pages, seconds)
