"""The tabs of a task's page. Each runs its own queries only."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db.models.functions import Now
from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from crawlservice.accounts.roles import may_steer
from crawlservice.admin.tasks import answer, item_comparison, item_table
from crawlservice.admin.tasks.limits import CHANGEABLE
from crawlservice.admin.tasks.task_view import TaskView
from crawlservice.config import effective
from crawlservice.models import Action, KeptPage, LogLine, Page, Task
from crawlservice.monitoring import charts
from crawlservice.pages.export import NAMES
from crawlservice.tasks.labels import of_task as labels_of
from crawlservice.tasks.progress import log
from crawlservice.tasks.progress.stats import of_task as stats_of
from crawlservice.tasks.progress.summary import MAX_ROWS, causes_of, pages_by_version, statuses_of
from crawlservice.tasks.results.task_rows import of_task

ROWS = 50  # pages, and actions
LINES = 100  # of the log
LATE_SPAN = timedelta(seconds=5)  # after the end of a task, in which its last lines arrive


class Tab(NamedTuple):
    """``name``: in its URL, and of its template. ``shown`` makes the context of that; its ``lives``
    says that it may still change. ``parent``: the tab that this one belongs to, if it has no place
    of its own."""

    name: str
    title: str | Promise
    shown: Callable[[HttpRequest, TaskView], dict[str, Any]]
    permission: str = "view_task"
    counted: str = ""  # attribute of Progress
    parent: str = ""


def _pages(request: HttpRequest, view: TaskView) -> dict[str, Any]:
    task = view.task
    rows = Page.objects.defer("follow_ups", "request", "exchange", "detail")
    stats = stats_of(task.pk)
    return {
        "pages": [*of_task(rows, task.pk, newest=True)[:ROWS]],
        "statuses": statuses_of(task),
        "versions": pages_by_version(task),
        "counted": [*stats.counters.items(), *stats.maxima.items()],
        "archives": [*NAMES] if KeptPage.objects.filter(task=task).exists() else [],
        "lives": task.state in Task.ACTIVE,
    }


def _errors(request: HttpRequest, view: TaskView) -> dict[str, Any]:
    task = view.task
    causes = causes_of(task)
    rids = [cause.example.rid for cause in causes]
    return {
        "causes": causes,
        "kept": dict(KeptPage.objects.filter(rid__in=rids).values_list("rid", "pk")),
        "looked": MAX_ROWS,
        "partly": sum(cause.errors for cause in causes) < task.errors,
        "lives": task.state in Task.ACTIVE,
    }


def _log(request: HttpRequest, view: TaskView) -> dict[str, Any]:
    task = view.task
    lines = [(line, log.level_name(line.level), _tone(line)) for line in log.latest(task.pk, LINES)]
    over = Task.objects.filter(pk=task.pk, finished_at__lt=Now() - LATE_SPAN)
    return {
        "lines": lines,
        "more": len(lines) == LINES,
        "shown": LINES,
        "dropped": log.dropped(task.pk),
        "lives": not over.exclude(state__in=Task.ACTIVE).exists(),
    }


def _tone(line: LogLine) -> str:
    if line.level >= logging.ERROR:
        return "bad"
    return "warn" if line.level >= logging.WARNING else "muted"


def _timeline(request: HttpRequest, view: TaskView) -> dict[str, Any]:
    task = view.task
    actions = Action.objects.filter(task=task).select_related("user", "token")[:ROWS]
    moments: list[tuple[datetime, Action | None]] = [(one.at, one) for one in actions]
    if task.finished_at:
        moments.append((task.finished_at, None))
    points = charts.rows(charts.of_task(view.progress))
    return {
        "moments": sorted(moments, reverse=True, key=lambda one: one[0]),
        "drawn": task.state in Task.ACTIVE or len(points) >= charts.LEAST_POINTS,
        "least": charts.LEAST_POINTS,
        "points": points[:: -max(1, len(points) // charts.PARTS)],
    }


def _settings(request: HttpRequest, view: TaskView) -> dict[str, Any]:
    task = view.task
    may = may_steer(request.user, task)
    return {
        "own_settings": effective.changed_of(task),
        "labels": labels_of(task.pk),
        "tasks_url": reverse("admin:crawlservice_task_changelist"),
        "may_label": may,
        "may_limit": may and task.state in CHANGEABLE,
    }


OVERVIEW = Tab("change", _("Overview"), answer.problems)
TABS = (
    Tab("items", _("Items"), item_table.shown_tab, "view_item", "items"),
    Tab("compare", _("Compare"), item_comparison.shown_tab, "view_item", parent="items"),
    Tab("pages", _("Pages"), _pages, "view_page", "ended_requests"),
    Tab("errors", _("Errors"), _errors, counted="errors"),
    Tab("log", _("Log"), _log),
    Tab("timeline", _("Timeline"), _timeline),
    Tab("settings", _("Settings"), _settings),
)
