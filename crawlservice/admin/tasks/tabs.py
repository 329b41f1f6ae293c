"""The tabs of a task's page. Each runs its own queries only. The first has a summary: the items
against the last good run, the duration, the waits, and the problems."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db.models.functions import Now
from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from crawlframe.proxies.place import host_in
from crawlservice.accounts.roles import may_steer
from crawlservice.admin.parts.steering import TaskView
from crawlservice.admin.tasks import item_tabs, reparse
from crawlservice.config import effective
from crawlservice.display import task_link
from crawlservice.hosts.host_labels import wait_of
from crawlservice.models import Action, KeptPage, LogLine, Page, Profile, Task
from crawlservice.monitoring import charts
from crawlservice.pages.export import NAMES
from crawlservice.proxies.use import lacks_of, no_proxy
from crawlservice.quality import deviation
from crawlservice.quality.wording import words_of
from crawlservice.reparse.submission import fetches
from crawlservice.tasks.labels import of_task as labels_of
from crawlservice.tasks.progress import layers, log
from crawlservice.tasks.progress.budgets import stops, traps_of
from crawlservice.tasks.progress.forecast import Forecast
from crawlservice.tasks.progress.progress import Progress, yielded
from crawlservice.tasks.progress.run_history import histories, last_good
from crawlservice.tasks.progress.stats import of_task as stats_of
from crawlservice.tasks.progress.summary import (
    MAX_ROWS,
    causes_of,
    pages_by_version,
    parked_of,
    statuses_of,
)
from crawlservice.tasks.results.task_rows import of_task
from crawlservice.tasks.stored_limits import limits_as_written, obeys_robots

CAUSES = 3  # of errors in the summary, with an example each
ROWS = 50  # pages, and actions
LINES = 100  # of the log
CHANGEABLE = (Task.State.RUNNING, Task.State.PAUSED)  # states in which limits can be changed
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


def numbers(known: Forecast) -> dict[str, Any]:
    """Items and time of a task, for the template."""
    progress = known.progress
    task, rate = progress.task, charts.rate(progress)
    return {
        "items": None if task.reparse else _items(progress),
        "rate": rate,
        "eta": known.seconds(rate),
        "delay": limits_as_written(task).get("delay") if fetches(task) else None,
        "wait": progress.wait and wait_of(progress.wait),
        "wait_host": progress.wait and host_in(progress.wait.host),
        "lacks": [] if progress.ended else [no_proxy(one) for one in lacks_of(task.pk)],
        "starting": None if progress.ended else yielded([task.pk]).get(task.pk),
    }


def _items(progress: Progress) -> dict[str, Any]:
    """``words``: how many there are, in comparison with the last good run."""
    task, now = progress.task, progress.items
    good, trend = last_good(task), histories([task])[task.pk].items
    if good is None:
        return {"words": gettext("There is no good run before it."), "trend": trend}
    before = good.items
    if not progress.ended:
        text = gettext("{before} in the last good run, task {task}")
    elif now == before:
        text = gettext("As many as in the last good run, task {task}")
    elif now > before:
        text = gettext("{n} more{share} than in the last good run, task {task}")
    else:
        text = gettext("{n} fewer{share} than in the last good run, task {task}")
    share = f" ({100 * abs(now - before) / before:.0f} %)" if before else ""
    n, link = f"{abs(now - before):,}", task_link(good.pk)
    words = format_html(text, n=n, before=f"{before:,}", share=share, task=link)
    return {"words": words, "few": progress.ended and 2 * now < before, "trend": trend}


def _overview(request: HttpRequest, view: TaskView) -> dict[str, Any]:
    """The problems of a task, for the template, and further consequences of them."""
    task, progress = view.task, view.progress
    stats = stats_of(task.pk)
    findings = deviation.of_task(task.pk)
    profile = Profile.objects.filter(task=task).defer("content").first()
    judged = profile is not None and profile.judged
    is_open = judged and any(one.accepted_at is None for one in findings)
    found = {
        "causes": causes_of(task)[:CAUSES] if progress.errors else [],
        "findings": [(one, words_of(one)) for one in findings],
        "stops": stops(progress, stats),
        "traps": traps_of([task.pk]).get(task.pk, []),
    }
    return {
        **found,
        "progress": progress,
        "well": task.outcome != Task.Outcome.FAILED and not any(found.values()),
        "judged": judged,
        "may_accept": is_open and may_steer(request.user, task),
        "ignores_robots": not obeys_robots(task) and fetches(task),
        "parked": parked_of(task) if progress.parked else [],
        "layers": layers.of_task(progress),
        "waits_for_hand": layers.waits_for_hand(task),
        **reparse.shown(task),
        "lives": not progress.ended or (profile is not None and not judged),
    }


def _pages(request: HttpRequest, view: TaskView) -> dict[str, Any]:
    task = view.task
    rows = Page.objects.defer("follow_ups", "request", "exchange", "detail")
    stats = stats_of(task.pk)
    return {
        "pages": [*of_task(rows, task.pk, newest=True)[:ROWS]],
        "statuses": statuses_of(task),
        "versions": pages_by_version(task),
        "counted": [*stats.counters.items(), *stats.maxima.items()],
        "archives": [*NAMES] if KeptPage.objects.filter(task=task, sample=None).exists() else [],
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


OVERVIEW = Tab("change", _("Overview"), _overview)
TABS = (
    Tab("items", _("Items"), item_tabs.table, "view_item", "items"),
    Tab("compare", _("Compare"), item_tabs.comparison, "view_item", parent="items"),
    Tab("pages", _("Pages"), _pages, "view_page", "ended_requests"),
    Tab("errors", _("Errors"), _errors, counted="errors"),
    Tab("log", _("Log"), _log),
    Tab("timeline", _("Timeline"), _timeline),
    Tab("settings", _("Settings"), _settings),
)
