"""Sampling: records how much the cluster and each of its tasks had done, for charts."""

from __future__ import annotations

import time
from datetime import datetime, timedelta

from django.db.models import QuerySet, Sum

from crawlframe.frontier import Counts
from crawlservice.connections import clock
from crawlservice.models import Sample, Task

SAMPLE_SECONDS = 10.0  # seconds
SAMPLE_AGE = timedelta(days=7)  # then they are pruned
# A task's samples are its age / FINENESS apart: a long crawl has no more than needed.
FINENESS = 360
DONE = ("nf", "ne", "cancelled", "excluded", "items")
WAITING = ("ready", "in_progress", "delayed", "parked")


class Sampler:
    """Writes samples every SAMPLE_SECONDS seconds.

    The cluster's NF, NE and items are the sums over all existing tasks, ended or not, so that any
    two samples show the work between them, whichever node led."""

    def __init__(self) -> None:
        self._next = 0.0
        self._last: dict[int, Sample] = {}
        self._settled = 0, dict.fromkeys(DONE, 0)  # the sums of all tasks below this number

    def tick(self, found: dict[int, Counts | None]) -> None:
        """``found``: the frontier's counts of the active tasks. Raises django.db.Error."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + SAMPLE_SECONDS
        at = clock.now()
        # Read after the counts: tasks that ended meanwhile have their last numbers here.
        tasks = Task.objects.only("created_at", *DONE).in_bulk([*found])
        samples = {pk: _sample(task, at, found[pk]) for pk, task in tasks.items()}
        new = {pk: one for pk, one in samples.items() if self._is_due(tasks[pk], one)}
        Sample.objects.bulk_create([self._cluster(at, samples), *new.values()])
        self._last = {pk: new.get(pk) or self._last[pk] for pk in samples}

    def _cluster(self, at: datetime, open_tasks: dict[int, Sample]) -> Sample:
        below, sums = self._settled
        first_open = min(open_tasks, default=0)
        if first_open < below:  # it was retried, or none is open
            below, sums = 0, dict.fromkeys(DONE, 0)
        sums = _sum(sums, Task.objects.filter(pk__gte=below, pk__lt=first_open))
        self._settled = first_open, sums
        others = Task.objects.filter(pk__gte=first_open).exclude(pk__in=[*open_tasks])
        numbers = _sum(sums, others) | dict.fromkeys(WAITING, 0)
        for sample in open_tasks.values():
            for name in numbers:
                numbers[name] += getattr(sample, name)
        return Sample(at=at, **numbers)

    def _is_due(self, task: Task, sample: Sample) -> bool:
        last = self._last.get(task.pk)
        if last is None:
            return True
        rested = (sample.at - last.at) * FINENESS >= sample.at - task.created_at
        return rested and _numbers(sample) != _numbers(last)


def _sample(task: Task, at: datetime, counts: Counts | None) -> Sample:
    """Never below the numbers in the task's row: after a retry the frontier counts from 0 again."""
    done = {name: max(getattr(task, name), getattr(counts, name, 0)) for name in DONE}
    waiting = {name: getattr(counts, name, 0) for name in WAITING}
    return Sample(at=at, task=task, **done, **waiting)


def _numbers(sample: Sample) -> list[int]:
    return [getattr(sample, name) for name in (*DONE, *WAITING)]


def _sum(sums: dict[str, int], more: QuerySet[Task]) -> dict[str, int]:
    found = more.order_by().aggregate(**{name: Sum(name, default=0) for name in DONE})
    return {name: sums[name] + found[name] for name in DONE}
