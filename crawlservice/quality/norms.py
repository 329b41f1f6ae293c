"""Norms: the usual values of metrics, from the good runs before."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import median
from typing import NamedTuple

from crawlservice.quality.metrics import Key, metrics
from crawlservice.quality.profile import Content, merged
from crawlservice.quality.run import PARTS, Range, RunStats, is_prose, key_of, word_shares
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
    extremes of the runs and of their windows."""

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
    """``windows``: the extremes of the windows of all runs. ``steps``: the extremes of their short
    windows, without metrics that too few runs have. ``scatter``: the coefficient of variation of
    the items of a page. ``alike``: the runs had the same arguments, so all metrics can be
    compared."""

    metrics: dict[Key, Norm]
    windows: dict[Key, tuple[float, float]]
    steps: dict[Key, tuple[float, float]]
    scatter: float
    texts: dict[str, Texts]
    totals: list[Totals]  # the latest first
    alike: bool
    runs: int


NONE = Norms({}, {}, {}, 0.0, {}, [], False, 0)


def norms_of(good: Sequence[Good], *, alike: bool) -> Norms:
    """``good``: the latest first. Norms without content if there are fewer than MIN_RUNS."""
    if len(good) < MIN_RUNS:
        return NONE
    contents = [one.run.content() for one in good]
    found: dict[Key, list[float]] = defaultdict(list)
    for content in contents:
        for key, metric in metrics(content).items():
            found[key].append(metric.value)
    ranges = _extremes([one.run.ranges for one in good], 1)
    usual = {}
    for key, values in found.items():
        if key.monitor in ABSENT:
            values = values + [0.0] * (len(good) - len(values))
        if len(values) >= MIN_RUNS:
            usual[key] = _norm(values, ranges.get(key))
    return Norms(
        metrics=usual,
        windows=ranges,
        steps=_extremes([one.run.steps for one in good], MIN_RUNS),
        scatter=max(map(_scatter, contents)),
        texts=_texts(contents),
        totals=[one.totals for one in good],
        alike=alike,
        runs=len(good),
    )


def _extremes(runs: Sequence[Mapping[str, Range]], fewest: int) -> dict[Key, tuple[float, float]]:
    """The ranges that at least ``fewest`` runs have."""
    found: dict[str, list[Range]] = defaultdict(list)
    for ranges in runs:
        for name, known in ranges.items():
            found[name].append(known)
    return {
        key_of(name): (min(one.low for one in some), max(one.high for one in some))
        for name, some in found.items()
        if len(some) >= fewest
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


def _norm(values: Sequence[float], windows: tuple[float, float] | None) -> Norm:
    middle = median(values)
    spread = SCALE * median(abs(value - middle) for value in values)
    least, most = min(values), max(values)
    low, high = windows or (least, most)
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
