"""Runs in the admin: the outcome of each time at which a schedule was due."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

from django.contrib import admin
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from crawlservice.admin.parts.columns import column
from crawlservice.admin.parts.read_only import ReadOnly
from crawlservice.admin.parts.recent import RecentLabel
from crawlservice.display import badge, moment, outcome_of, task_link
from crawlservice.models import Run, Schedule

MAX_RUNS = 10
NOT_SHOWN = ("task__seeds", "task__arguments", "task__settings")
TONES = {
    Run.Outcome.SUBMITTED: "good",
    Run.Outcome.WAITING: "muted",
    Run.Outcome.SKIPPED: "warn",
    Run.Outcome.MISSED: "warn",
    Run.Outcome.FAILED: "bad",
}


def outcome_badge(outcome: str) -> SafeString:
    known = Run.Outcome(outcome)
    return badge(known.label, TONES[known])


@admin.register(Run)
class RunAdmin(ReadOnly):
    list_display = (
        "due",
        "schedule",
        "shown_outcome",
        "shown_task",
        "ended_as",
        "shown_labels",
        "problem",
    )
    list_filter = ("outcome", "schedule", RecentLabel)
    list_select_related = ("schedule", "task")
    ordering = ("-id",)
    fields = ("schedule", "due", "shown_outcome", "shown_task", "ended_as", "problem", "created_at")

    due = column(lambda run: moment(run.due_at, zone_of(run.schedule)), _("due at"))
    shown_outcome = column(outcome_badge, _("outcome"), "outcome")
    shown_task = column(task_link, _("task"), "task_id")
    ended_as = column(outcome_of, _("state of the task"), "task")
    deferred = NOT_SHOWN


def zone_of(schedule: Schedule) -> ZoneInfo:
    """The schedule's time zone; UTC if this machine does not know it."""
    try:
        return ZoneInfo(schedule.timezone)
    except (KeyError, ValueError, OSError):
        return ZoneInfo("UTC")


def latest_runs(schedule: int) -> dict[str, Any]:
    """The latest runs of a schedule, for the theme's table."""
    runs = Run.objects.filter(schedule=schedule).select_related("schedule", "task")
    latest = runs.defer(*NOT_SHOWN).order_by("-due_at")[:MAX_RUNS]
    rows = [
        [
            moment(run.due_at, zone_of(run.schedule)),
            outcome_badge(run.outcome),
            task_link(run.task_id),
            outcome_of(run.task),
            run.problem,
        ]
        for run in latest
    ]
    titles = [_("due at"), _("outcome"), _("task"), _("state of the task"), _("remark")]
    return {"headers": titles, "rows": rows}


def all_runs(schedule: int) -> str:
    return reverse("admin:crawlservice_run_changelist") + f"?schedule__id__exact={schedule}"
