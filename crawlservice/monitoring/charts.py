"""Charts: the work done over time, from samples."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import chain, pairwise
from typing import Any

from django.utils import timezone

from crawlframe.run.reasons import CANCELLED, EXCLUDED
from crawlservice.models import Page, Sample, Task
from crawlservice.monitoring.ttl_cache import ttl_cache
from crawlservice.tasks.progress.progress import Progress

POINTS = 300  # most points of a chart
LEAST_POINTS = 5  # points; a chart of fewer says nothing
SHORT_RUN = timedelta(minutes=2)  # shorter runs have too few samples for a chart
PARTS = 12  # points of such a run
MAX_PAGES = 5_000  # ledger rows of such a run
GAP = timedelta(minutes=2)  # without a sample: no leader, or nothing was done
MIN_SPAN = timedelta(seconds=20)  # least time that a current rate is averaged over
NUMBERS = (
    "nf", "ne", "cancelled", "excluded", "items", "ready", "in_progress", "delayed", "parked",
)  # fmt: skip
MAX_SAMPLES = 5  # latest samples that are searched for one as old as that

Chart = dict[str, list[Any]]


@ttl_cache(seconds=5)
def of_cluster(span: timedelta) -> Chart:
    """The last ``span``. For each point: its time (``at``, Unix milliseconds); pages, errors and
    items per second since the previous point (None: unknown); how many requests were ready, in
    progress, delayed and parked, and their sum, remaining. ``nf``, ``errors_total``, ``cancelled``
    and ``excluded`` are totals up to then. A request that was cancelled or excluded is neither a
    page nor an error."""
    rows = Sample.objects.filter(task=None, at__gte=timezone.now() - span).order_by("at")
    return points(thinned(rows.iterator(chunk_size=2000), span))


def of_task(progress: Progress) -> Chart:
    """The same for a task, from its submission until now. Of a short run, by its ledger."""
    task = progress.task
    if progress.age < SHORT_RUN.total_seconds() and progress.na <= MAX_PAGES:
        return points(_of_ledger(progress))
    rows = Sample.objects.filter(task=task).order_by("at")
    last = _sample(task, task.finished_at or timezone.now(), progress)
    first = _sample(task, task.created_at)
    span = timedelta(seconds=max(1.0, progress.age))
    return points(thinned(chain([first], rows.iterator(chunk_size=2000), [last]), span))


def _of_ledger(progress: Progress) -> Iterator[Sample]:
    """PARTS samples, as the rows of the ledger tell them."""
    task, numbers = progress.task, dict.fromkeys(NUMBERS, 0)
    rows = Page.objects.filter(task=task).order_by()
    ended = sorted(rows.values_list("created_at", "state", "reason", "items")[:MAX_PAGES])
    width = timedelta(seconds=progress.age / PARTS)
    for n in range(PARTS + 1):
        at = task.created_at + n * width
        while ended and (ended[0][0] <= at or n == PARTS):
            _at, state, reason, items = ended.pop(0)
            numbers["nf" if state == Page.State.DONE else "ne"] += 1
            numbers["cancelled"] += reason == CANCELLED
            numbers["excluded"] += reason in EXCLUDED
            numbers["items"] += items
        left = progress.na - numbers["nf"] - numbers["ne"]
        yield Sample(task=task, at=at, **numbers | {"ready": max(0, left)})


def rate(progress: Progress) -> float:
    """Pages per second of a task: over about the last MIN_SPAN, or over its whole run if it has
    ended."""
    done, task = progress.worked, progress.task
    if progress.ended:
        return done / progress.age if progress.age else 0.0
    latest = Sample.objects.filter(task=task).order_by("-at")[:MAX_SAMPLES]
    old = (sample for sample in latest if timezone.now() - sample.at >= MIN_SPAN)
    since = next(old, _sample(task, task.created_at))
    seconds = (timezone.now() - since.at).total_seconds()
    return max(0, done - since.nf - _errors(since)) / seconds if seconds > 0 else 0.0


def thinned(samples: Iterable[Sample], span: timedelta) -> Iterator[Sample]:
    """The first sample, and the last of each of POINTS parts of the span."""
    width = span.total_seconds() / POINTS
    last, yielded = None, False
    for sample in samples:
        if last is not None:
            parts = [int(one.at.timestamp() / width) for one in (last, sample)]
            if not yielded or parts[0] != parts[1]:
                yielded = True
                yield last
        last = sample
    if last is not None:
        yield last


def points(samples: Iterable[Sample]) -> Chart:
    samples = [*samples]
    chart: Chart = defaultdict(list)
    usual = (samples[-1].at - samples[0].at) / len(samples) if samples else GAP
    for before, after in pairwise(samples):
        known = after.at - before.at <= max(GAP, 3 * usual)
        seconds = max(0.001, (after.at - before.at).total_seconds())
        chart["at"].append(round(after.at.timestamp() * 1000))
        errors, items = _errors(after) - _errors(before), after.items - before.items
        pages = after.nf - before.nf + errors
        for name, done in (("pages", pages), ("errors", errors), ("items", items)):
            # Deleted or retried requests do not count as negative work.
            chart[name].append(round(max(0, done) / seconds, 2) if known else None)
        names = ("nf", "cancelled", "excluded", "ready", "in_progress", "delayed", "parked")
        for name in names:
            chart[name].append(getattr(after, name))
        chart["errors_total"].append(_errors(after))
        waiting = after.ready + after.in_progress + after.delayed + after.parked
        chart["remaining"].append(waiting)
    return dict(chart)


def rows(chart: Chart) -> list[tuple[Any, ...]]:
    """The points of a task's chart, for a table: moment, done, errors, left, pages per second."""
    names = ("at", "nf", "errors_total", "remaining", "pages")
    found = zip(*(chart.get(name, ()) for name in names), strict=True)
    return [(datetime.fromtimestamp(at / 1000, UTC), *numbers) for at, *numbers in found]


def _errors(sample: Sample) -> int:
    return sample.ne - sample.cancelled - sample.excluded


def _sample(task: Task, at: Any, progress: Progress | None = None) -> Sample:
    return Sample(task=task, at=at, **{name: getattr(progress, name, 0) for name in NUMBERS})
