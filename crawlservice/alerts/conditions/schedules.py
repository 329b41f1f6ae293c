"""Schedules that cannot start, or have missed their latest start."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from django.db.models import Exists, OuterRef
from django.utils.translation import gettext_lazy as _

from crawlservice.alerts.condition import (
    MAX_SUBJECTS,
    Alarm,
    Condition,
    Facts,
    ServiceView,
    filled,
    first_line,
)
from crawlservice.alerts.wording import page_of
from crawlservice.models import Run, Schedule, Severity

MAX_AGE = timedelta(days=2)  # after which a missed start is history


def _link(facts: Facts) -> str:
    return page_of("schedule", facts["number"])


def _cannot_start(view: ServiceView) -> Iterator[Alarm]:
    rows = Schedule.objects.filter(enabled=True).exclude(problem="").order_by("pk")
    for one in rows.defer("arguments")[: MAX_SUBJECTS + 1]:
        since = one.problem_since or view.now
        facts = {
            "schedule": one.name, "number": one.pk, "spider": one.spider,
            "problem": first_line(one.problem),
        }  # fmt: skip
        yield Alarm("schedule", str(one.pk), since, facts, spider=one.spider)


SCHEDULE = Condition(
    "schedule",
    _("schedule cannot start"),
    Severity.SEVERE,
    _cannot_start,
    filled(_("Schedule {schedule} cannot start: {problem}")),
    _link,
    urgency=70,
    rows=lambda: [Schedule.objects.exclude(problem="")],
)


def _missed(view: ServiceView) -> Iterator[Alarm]:
    later = Run.objects.filter(schedule=OuterRef("schedule"), due_at__gt=OuterRef("due_at"))
    rows = Run.objects.filter(
        ~Exists(later),
        outcome=Run.Outcome.MISSED,
        due_at__gt=view.now - MAX_AGE,
        schedule__enabled=True,
    )
    rows = rows.select_related("schedule").order_by("schedule", "due_at")
    for run in rows[: MAX_SUBJECTS + 1]:
        one = run.schedule
        facts = {
            "schedule": one.name, "number": one.pk, "spider": one.spider,
            "due": run.due_at.isoformat(),
        }  # fmt: skip
        yield Alarm("schedule_missed", str(one.pk), run.due_at, facts, spider=one.spider)


SCHEDULE_MISSED = Condition(
    "schedule_missed",
    _("start missed"),
    Severity.WARNING,
    _missed,
    filled(_("Schedule {schedule} missed its start, because no node was running.")),
    _link,
    urgency=10,
    rows=lambda: [Run.objects.filter(outcome=Run.Outcome.MISSED)],
)
