"""Alarms of tasks: the latest runs of spiders, by how they ended, and tasks that run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Exists, OuterRef

from crawlservice.alerts.condition import Alarm, Facts, RunningTask, ServiceView, Unknown
from crawlservice.models import OPEN, Alert, Task

LOOKED_AT = 2_000  # latest tasks of an outcome that are looked at
MAX_AGE = timedelta(days=7)  # after which a failed task is history
Outcome = Task.Outcome
ENDED = (Outcome.FINISHED, Outcome.FINISHED_WITH_ERRORS, Outcome.FAILED)


def latest_runs(kind: str, outcome: Task.Outcome, now: datetime) -> Iterable[Task]:
    """The latest run of each spider with the same arguments, if it ended so."""
    rows = Task.objects.filter(outcome=outcome).order_by("-pk")
    ended = rows.values_list("pk", "spider", "arguments_hash", "finished_at")
    # Tasks that have an alert are looked at however many others came later.
    facts = Alert.objects.filter(OPEN, kind=kind).values_list("facts", flat=True)
    known = [one["task"] for one in facts if isinstance(one, dict) and "task" in one]
    looked_at = {row[0]: row for row in (*ended[:LOOKED_AT], *ended.filter(pk__in=known))}
    found: dict[tuple[str, int | None], int] = {}
    for pk in sorted(looked_at, reverse=True):
        _, spider, digest, at = looked_at[pk]
        if at is not None and at > now - MAX_AGE:
            found.setdefault((spider, digest), pk)
    numbers = [*found.values()]
    later = Task.objects.filter(
        arguments_hash=OuterRef("arguments_hash"),
        spider=OuterRef("spider"),
        pk__gt=OuterRef("pk"),
        outcome__in=ENDED,
    )
    latest = Task.objects.filter(~Exists(later), pk__in=numbers)
    columns = ("spider", "arguments_hash", "finished_at", "reason", "items")
    return latest.only(*columns, "ne", "cancelled", "excluded")


def finding_of(kind: str, task: Task, now: datetime) -> Alarm:
    subject = f"{task.spider}:{task.arguments_hash}" if task.arguments_hash else str(task)
    facts = {
        "spider": task.spider, "task": task.pk, "reason": task.reason,
        "errors": task.errors, "items": task.items,
    }  # fmt: skip
    since = task.finished_at or now
    return Alarm(kind, subject, since, facts, spider=task.spider, task=task.pk)


def running_finding(
    kind: str, task: RunningTask, since: datetime, value: float | None = None, **facts: Any
) -> Alarm:
    known = {"spider": task.spider, "task": task.number, **facts}
    return Alarm(kind, str(task.number), since, known, value, spider=task.spider, task=task.number)


def uncounted(view: ServiceView) -> Iterator[Unknown]:
    """The tasks that the frontier does not know, as while it is rebuilt."""
    return (Unknown(str(task.number)) for task in view.tasks if task.counts is None)


def name_of(facts: Facts) -> str:
    """A task, in sentences."""
    return f"{facts['spider']} #{facts['task']}"
