"""History: how tasks compare with the runs of their spiders before them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from crawlservice.models import Task

RUNS = 20  # earlier runs that are shown
SLACK = 30  # earlier runs that one query reads beyond the tasks themselves
# Outcomes of runs with which others are compared: not cancelled ones, which could not finish.
COMPARED = (*Task.COMPLETED, Task.Outcome.FAILED)


@dataclass(frozen=True)
class Past:
    """An earlier run."""

    task: int
    items: int
    errors: int
    arguments: int | None  # their hash


@dataclass(frozen=True)
class RunHistory:
    """``before``: the last run of the same spider, with the same arguments if one of the last RUNS
    had these; ``same``: whether it had. ``items``: numbers of the last runs, the oldest first, and
    of the task itself if it has ended."""

    before: Past | None = None
    same: bool = False
    items: list[int] = field(default_factory=list)


def histories(tasks: Iterable[Task]) -> dict[int, RunHistory]:
    """The history of each task. One query for each spider, if its tasks are near each other."""
    of_spider: dict[str, list[Task]] = defaultdict(list)
    for task in tasks:
        of_spider[task.spider].append(task)
    found: dict[int, RunHistory] = {}
    for spider, group in of_spider.items():
        newest = max(task.pk for task in group)
        size = len(group) + RUNS + SLACK
        past = _past(spider, newest, size)
        for task in group:
            before = [run for run in past if run.task < task.pk][:RUNS]
            if len(before) < RUNS and len(past) == size:
                before = _past(spider, task.pk, RUNS)
            same = [run for run in before if run.arguments == task.arguments_hash]
            last = next(iter(same or before), None)
            items = [run.items for run in reversed(before)]
            if task.state not in Task.ACTIVE:
                items.append(task.items)
            found[task.pk] = RunHistory(last, bool(same), items)
    return found


def last_good(task: Task) -> Task | None:
    """The latest good run with the same arguments before a task. Raises django.db.Error."""
    same = Task.objects.filter(profile__spider=task.spider, pk__lt=task.pk)
    same = same.filter(profile__arguments_hash=task.arguments_hash, profile__good=True)
    return same.only("pk", "items").order_by("-profile__task_id").first()


def _past(spider: str, before: int, count: int) -> list[Past]:
    """The runs before that task, the latest first."""
    rows = Task.objects.filter(spider=spider, pk__lt=before, outcome__in=COMPARED)
    rows = rows.filter(reparse__isnull=True, watch=None).order_by("-pk")
    columns = ("pk", "items", "ne", "cancelled", "excluded", "arguments_hash")
    return [
        Past(pk, items, ne - cancelled - excluded, hash_)
        for pk, items, ne, cancelled, excluded, hash_ in rows.values_list(*columns)[:count]
    ]
