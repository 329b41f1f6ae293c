"""Conditions of schedules: they cannot start, or a start was missed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from django.db.models import Exists, OuterRef

from crawlservice.alerts.finding import MOST, Finding, View
from crawlservice.models import Run, Schedule

LONGEST = 300  # characters of a problem
RECENT = timedelta(days=2)  # after which a missed start is history


def cannot_start(view: View) -> Iterator[Finding]:
    """Enabled schedules whose last start failed."""
    rows = Schedule.objects.filter(enabled=True).exclude(problem="").order_by("pk")
    for schedule in rows.defer("arguments")[: MOST + 1]:
        problem = schedule.problem.partition("\n")[0][:LONGEST]
        yield _of("schedule", schedule, schedule.problem_since or view.now, problem=problem)


def missed(view: View) -> Iterator[Finding]:
    """Enabled schedules whose latest run was missed because no node was running."""
    later = Run.objects.filter(schedule=OuterRef("schedule"), due_at__gt=OuterRef("due_at"))
    rows = Run.objects.filter(
        ~Exists(later),
        outcome=Run.Outcome.MISSED,
        due_at__gt=view.now - RECENT,
        schedule__enabled=True,
    )
    for run in rows.select_related("schedule").order_by("schedule", "due_at")[: MOST + 1]:
        yield _of("schedule_missed", run.schedule, run.due_at, due=run.due_at.isoformat())


def _of(kind: str, schedule: Schedule, since: object, **facts: str) -> Finding:
    known = {"schedule": schedule.name, "number": schedule.pk, "spider": schedule.spider}
    subject = str(schedule.pk)
    return Finding(kind, subject, since, known | facts, spider=schedule.spider)  # type: ignore[arg-type]
