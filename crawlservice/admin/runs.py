"""Runs in the admin: what became of the times at which schedules were due."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.contrib import admin
from django.urls import reverse
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.decorators import display

from crawlservice.admin.readonly import ReadOnly
from crawlservice.models import Run, Schedule

LATEST = 10
COLOURS = {
    Run.Outcome.SUBMITTED: "success",
    Run.Outcome.WAITING: "info",
    Run.Outcome.SKIPPED: "warning",
    Run.Outcome.MISSED: "warning",
    Run.Outcome.FAILED: "danger",
}


@admin.register(Run)
class RunAdmin(ReadOnly):
    list_display = ("due", "schedule", "shown_outcome", "shown_task", "problem")
    list_filter = ("outcome", "schedule")
    list_select_related = ("schedule",)
    ordering = ("-id",)
    fields = ("schedule", "due", "shown_outcome", "shown_task", "problem", "created_at")

    @admin.display(description=_("due at"))
    def due(self, run: Run) -> str:
        return in_zone(run.due_at, zone_of(run.schedule))

    @display(description=_("outcome"), label=COLOURS)
    def shown_outcome(self, run: Run) -> tuple[str, str]:
        return run.outcome, run.get_outcome_display()

    @admin.display(description=_("task"))
    def shown_task(self, run: Run) -> SafeString | str:
        return task_link(run.task_id)


def in_zone(moment: datetime, zone: ZoneInfo) -> str:
    return date_format(moment.astimezone(zone), "D Y-m-d H:i:s T")


def zone_of(schedule: Schedule) -> ZoneInfo:
    """UTC for one that this machine does not know."""
    try:
        return ZoneInfo(schedule.timezone)
    except (KeyError, ValueError, OSError):
        return ZoneInfo("UTC")


def task_link(task: int | None) -> SafeString | str:
    if task is None:
        return "-"
    return format_html('<a href="{}">{}</a>', _place_of(task), gettext("task %d") % task)


def _place_of(task: int) -> str:
    return reverse("admin:crawlservice_task_change", args=[task])


def latest_runs(schedule: int) -> dict[str, Any]:
    """The latest runs, for the theme's table."""
    runs = Run.objects.filter(schedule=schedule).select_related("schedule").order_by("-due_at")
    rows = [
        [
            in_zone(run.due_at, zone_of(run.schedule)),
            run.get_outcome_display(),
            task_link(run.task_id),
            run.problem,
        ]
        for run in runs[:LATEST]
    ]
    return {"headers": [_("due at"), _("outcome"), _("task"), _("remark")], "rows": rows}


def all_runs(schedule: int) -> str:
    return reverse("admin:crawlservice_run_changelist") + f"?schedule__id__exact={schedule}"
