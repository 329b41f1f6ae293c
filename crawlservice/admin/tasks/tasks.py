"""Tasks in the admin: the list with live numbers, and actions on several at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timezone import localtime
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from crawlframe.base.program import command
from crawlservice.accounts.journal import by, record
from crawlservice.accounts.roles import may_submit
from crawlservice.admin.parts.filters import (
    Created,
    RecentLabel,
    RecentSpider,
    RecentUser,
    filter_by,
)
from crawlservice.admin.parts.keyset import KeysetList
from crawlservice.admin.parts.lookups import DeclaredLookups, column, with_facts
from crawlservice.admin.parts.owned import Owned, OwnerFilter
from crawlservice.admin.parts.read_only import OwnPage
from crawlservice.admin.parts.steering import DONE, steer
from crawlservice.admin.tasks.page import show
from crawlservice.admin.tasks.tabs import OVERVIEW
from crawlservice.display import (
    change_since,
    duration,
    moment,
    page_link,
    reason_words,
    sparkline,
    state_badge,
    state_label,
)
from crawlservice.exports.source import held
from crawlservice.hosts.host_labels import wait_of
from crawlservice.models import Task
from crawlservice.tasks.progress.progress import Progress, read
from crawlservice.tasks.progress.run_history import RunHistory, histories
from crawlservice.tasks.removal import RemovalExtent, extent, remove
from crawlservice.tasks.retry import ENDED
from crawlservice.tasks.submit import SWEEP

MAX_DELETED_ROWS = 500_000  # rows deleted while a user waits for the page


def _add_progress(request: HttpRequest, tasks: list[Task]) -> None:
    for progress in read(tasks):
        progress.task.progress = progress  # type: ignore[attr-defined]
    for task, history in zip_histories(tasks):
        task.history = history


def _progress_of(task: Task) -> Progress:
    found: Progress | None = getattr(task, "progress", None)
    return found or read([task])[0]


def zip_histories(tasks: Iterable[Any]) -> Iterator[tuple[Any, RunHistory]]:
    """Tasks with their histories."""
    tasks = [*tasks]
    found = histories(tasks)
    return ((task, found[task.pk]) for task in tasks)


def _changed(task: Task, name: str) -> SafeString | str:
    """A number of a task, and for one that has ended the difference to the run before."""
    progress = _progress_of(task)
    now: int = getattr(progress, name)
    history: RunHistory = getattr(task, "history", None) or histories([task])[task.pk]
    if history.before is None or not progress.ended:
        return f"{now:,}"
    before = history.before
    change = change_since(now, getattr(before, name), before.task, same=history.same)
    return format_html("{} {}", f"{now:,}", change)


Status = filter_by(  # by state or outcome: the one word that is shown
    *(_("state"), "status"),
    lambda: ((word.value, state_label(word)[0]) for word in (*Task.ACTIVE, *Task.Outcome)),
    lambda rows, word: rows.filter(**{"state" if word in Task.ACTIVE else "outcome": word}),
)


class Rounds(admin.SimpleListFilter):
    """Rounds of watches are left out, unless all rounds, or a watch's, are asked for."""

    title = _("rounds of watches")
    parameter_name = "watch"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        chosen = self.value() or ""
        shown = [(chosen, f"#{chosen}")] if chosen.isdecimal() else []
        return [("all", _("shown, too")), *shown]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Task]) -> QuerySet[Task]:
        word = self.value()
        if word == "all":
            return queryset
        return queryset.filter(watch=int(word) if word and word.isdecimal() else None)


def _steering(title: Any, verb: str) -> Callable[..., None]:
    """An action of the list; all tasks together have SWEEP seconds to cancel."""

    @admin.action(description=title, permissions=["steer"])
    def run(self: DeclaredLookups, request: HttpRequest, tasks: QuerySet[Task]) -> None:
        until = time.monotonic() + SWEEP

        def act(task: Task) -> None:
            steer(request, task, verb, max(0.0, until - time.monotonic()))

        self.each(request, tasks, act, DONE[verb])

    return run


@admin.register(Task)
class TaskAdmin(Owned, OwnPage):
    list_display = (
        "id", "spider", "owner", "shown_labels", "shown_state", "done", "errors", "left",
        "item_count", "trend", "took", "rate", "submitted",
    )  # fmt: skip
    list_display_links = ("id", "spider")
    list_filter = (Status, RecentSpider, OwnerFilter, RecentLabel, RecentUser, Created, Rounds)
    list_select_related = ("user",)
    search_fields = ("=id", "spider")
    search_help_text = _("Number or spider")
    actions = ("pause", "resume", "cancel", "retry")

    changelist = with_facts(_add_progress, KeysetList)
    deferred = ("seeds",)

    def row_page(self, request: HttpRequest, pk: str) -> HttpResponse:
        return show(request, pk, OVERVIEW)

    @admin.display(description=_("state"))
    def shown_state(self, task: Task) -> SafeString:
        badge, wait = state_badge(task.status), _progress_of(task).wait
        why = wait_of(wait) if wait else reason_words(task.reason)
        return format_html('{}<span class="cf-why">{}</span>', badge, why) if why else badge

    @admin.display(description=_("done"))
    def done(self, task: Task) -> SafeString:
        progress = _progress_of(task)
        whole = _("of {n}").format(n=f"{progress.na:,}")
        return format_html(
            '{} <span class="cf-second" title="{}">{}</span>',
            page_link(f"{progress.nf:,}", "page_changelist", task=task.pk),
            _("requests"),
            whole,
        )

    @admin.display(description=_("left"))
    def left(self, task: Task) -> SafeString | str:
        progress = _progress_of(task)
        if not progress.parked:
            return f"{progress.nr:,}"
        parked = _("{n} parked").format(n=f"{progress.parked:,}")
        return format_html('{} <span class="cf-second">{}</span>', f"{progress.nr:,}", parked)

    @admin.display(description=_("submitted"))
    def submitted(self, task: Task) -> SafeString:
        by = task.user.get_username() if task.user else ""
        return format_html('{} <span class="cf-second">{}</span>', moment(task.created_at), by)

    @admin.display(description=_("errors"))
    def errors(self, task: Task) -> SafeString | str:
        shown = _changed(task, "errors")
        if not _progress_of(task).errors:
            return shown
        return page_link(shown, "page_changelist", task=task.pk, state__exact="error")

    item_count = column(
        lambda task: page_link(_changed(task, "items"), "item_changelist", task=task.pk), _("items")
    )
    trend = column(sparkline, _("last runs"), "history.items")

    @admin.display(description=_("duration"))
    def took(self, task: Task) -> SafeString:
        at = date_format(localtime(task.finished_at), "Y-m-d H:i:s") if task.finished_at else ""
        return format_html('<span title="{}">{}</span>', at, duration(_progress_of(task).age))

    @admin.display(description=_("pages/s"))
    def rate(self, task: Task) -> str:
        progress = _progress_of(task)
        return f"{progress.worked / progress.age:,.1f}" if progress.age else "-"

    # Ended tasks can be deleted; none can be edited.
    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return request.user.has_perm("crawlservice.delete_task")

    def get_deleted_objects(self, objs: Iterable[Any], request: HttpRequest) -> Any:
        """The numbers of rows as the tasks have them: counting millions would take too long."""
        chosen = [*objs]
        found = extent(Task.objects.filter(pk__in=[task.pk for task in chosen]))
        counts = dict(zip((_("tasks"), _("pages"), _("items")), found, strict=True))
        kept = [_open(task) for task in chosen if task.state not in ENDED]
        for task, names in held([task.pk for task in chosen]).items():
            text = gettext(
                "Task {task}: export {names} has not exported all of it. Wait, or pause the export."
            )
            kept.append(text.format(task=task, names=", ".join(names)))
        if sum(found) > MAX_DELETED_ROWS:
            text = gettext("Too many rows to delete from here. Use: {command}")
            kept.append(text.format(command=command("task prune --task ID")))
        return [str(task) for task in chosen], counts, set(), kept

    def delete_model(self, request: HttpRequest, obj: Task) -> None:
        self.delete_queryset(request, Task.objects.filter(pk=obj.pk))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Task]) -> None:
        numbers = sorted(queryset.values_list("pk", flat=True))
        parts = remove(Task.objects.filter(pk__in=numbers), held)
        gone = RemovalExtent(*(sum(part) for part in zip(*parts, strict=True)))
        told = gone._asdict() | {"tasks": numbers}
        record("delete_task", **by(request), **told)

    # Whether the user may control a task is checked for each.
    def has_steer_permission(self, request: HttpRequest) -> bool:
        return may_submit(request.user) or super().has_steer_permission(request)

    pause = _steering(_("Pause selected tasks"), "pause")
    resume = _steering(_("Resume selected tasks"), "resume")
    cancel = _steering(_("Cancel selected tasks"), "cancel")
    retry = _steering(_("Retry failed requests of selected tasks"), "retry")


def _open(task: Task) -> str:
    return gettext("{task} has not ended; cancel it first").format(task=task)
