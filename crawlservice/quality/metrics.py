"""Metrics: the numbers of a run that are compared, each with how sure it is."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from crawlservice.quality.profile import Content, FieldContent
from crawlservice.quality.sketch import FREQUENT, LogHistogram

MIN_COUNT = 5  # values from which a share says something
LEAST_MEDIAN = 20
OK_STATUSES = ("2", "n")  # first letters: no answer counts as an error, if it is one


class Key(NamedTuple):
    """``subject``: a part of the field or the run, such as a status or a value."""

    monitor: str
    field: str = ""
    subject: str = ""


class Metric(NamedTuple):
    """A share of ``n`` values; or, with ``error``, a logarithm with this standard error."""

    value: float
    n: int
    error: float | None = None


Metrics = dict[Key, Metric]


def metrics(content: Content) -> Metrics:
    """The numbers that can be compared at any time of a run: shares, medians and counts."""
    return {key: metric for key, metric in _all(content) if metric.n >= MIN_COUNT}


def _all(content: Content) -> Iterator[tuple[Key, Metric]]:
    pages = content.pages
    if pages:
        yield Key("errors"), Metric(content.errors / pages, pages)
        for status, count in content.statuses.items():
            if status[0] not in OK_STATUSES:
                yield Key("status", "", status), Metric(count / pages, pages)
        for section, count in content.sections.items():
            yield Key("section", "", section), Metric(count / pages, pages)
    done = pages - content.errors
    if done > 0 and content.yielded:
        mean = content.yielded / done
        variance = max(0.0, content.squares / done - mean * mean)
        error = max(0.02, math.sqrt(variance / done) / mean)
        yield Key("yield"), Metric(math.log(mean), done, error)
    for name, field in content.fields.items():
        yield Key("filled", name), Metric(field.filled / content.items, content.items)
        yield from _of_field(name, field)
        yield from _choices(name, field)


def _of_field(name: str, field: FieldContent) -> Iterator[tuple[Key, Metric]]:
    filled = field.filled
    if not filled:
        return
    for kind, count in field.kinds.items():
        yield Key("kind", name, kind), Metric(count / filled, filled)
    if numbers := field.kinds.get("number", 0):
        yield Key("zero", name), Metric(field.numbers.counts.get(0, 0) / numbers, numbers)
        if (middle := _median(field.numbers, numbers)) is not None:
            yield Key("value", name), middle
    if texts := field.kinds.get("text", 0):
        yield Key("broken", name), Metric(field.broken / texts, texts)
    if field.lengths.counts and (middle := _median(field.lengths, field.lengths.total)) is not None:
        yield Key("length", name), middle
    _, most = field.frequent.most
    yield Key("top", name), Metric(most / filled, filled)
    yield Key("distinct", name), Metric(field.distinct.ratio, filled)


def _choices(name: str, field: FieldContent) -> Iterator[tuple[Key, Metric]]:
    """The values of a field that has few."""
    distinct = field.distinct.estimate
    if 0 < 4 * distinct <= field.filled and distinct <= FREQUENT:
        for value, count in field.frequent.counts.items():
            yield Key("choice", name, value), Metric(count / field.filled, field.filled)


def _median(values: LogHistogram, n: int) -> Metric | None:
    """The logarithm of the median, with the standard error of a sample of this spread; None if it
    is not positive."""
    middle = values.quantile(0.5)
    if middle <= 0 or n < LEAST_MEDIAN:
        return None
    low, high = values.quantile(0.25), values.quantile(0.75)
    spread = math.log(high / low) if low > 0 else 2.0
    return Metric(math.log(middle), n, max(0.05, 0.93 * spread) / math.sqrt(n))
