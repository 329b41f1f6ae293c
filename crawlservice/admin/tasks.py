"""Tasks in the admin, with their progress and actions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.views.main import ChangeList
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from crawlframe.errors import CrawlframeError
from crawlservice.admin.readonly import ReadOnly
from crawlservice.models import Task
from crawlservice.progress import Progress, read
from crawlservice.shown import pretty
from crawlservice.submit import cancel, pause, resume
from crawlservice.versions import pages_by_version


class TaskList(ChangeList):
    """Gives every task of the page its progress, with one look at Redis for all."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        for progress in read(self.result_list):
            progress.task.progress = progress  # type: ignore[attr-defined]


def progress_of(task: Task) -> Progress:
    found: Progress | None = getattr(task, "progress", None)
    return found or read([task])[0]


def _number(name: str, title: str) -> Callable[[TaskAdmin, Task], str]:
    @admin.display(description=title)
    def column(self: TaskAdmin, task: Task) -> str:
        return f"{getattr(progress_of(task), name):,}"

    return column


@admin.register(Task)
class TaskAdmin(ReadOnly):
    list_display = (
        "id", "spider", "state", "admitted", "finished", "errors", "remaining", "parked",
        "item_count", "created_at", "finished_at", "links",
    )  # fmt: skip
    list_display_links = ("id", "spider")
    list_filter = ("state",)
    search_fields = ("=id", "spider")
    actions = ("pause", "resume", "cancel")
    fields = (
        "spider", "state", "priority", "shown_arguments", "shown_settings", "admitted", "finished",
        "errors", "remaining", "parked", "item_count", "code", "created_at", "finished_at", "links",
    )  # fmt: skip
    readonly_fields = fields

    admitted = _number("na", "NA admitted")
    finished = _number("nf", "NF finished")
    errors = _number("ne", "NE errors")
    remaining = _number("nr", "NR remaining")
    parked = _number("parked", "parked")
    item_count = _number("items", "items")

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return TaskList

    def get_queryset(self, request: HttpRequest) -> QuerySet[Task]:
        rows: QuerySet[Task] = super().get_queryset(request)
        return rows.defer("seeds")

    @admin.display(description="")
    def links(self, task: Task) -> SafeString:
        pages = reverse("admin:crawlservice_page_changelist")
        items = reverse("admin:crawlservice_item_changelist")
        return format_html(
            '<a href="{}?task={}">pages</a> <a href="{}?task={}">items</a> '
            '<a href="{}?task={}&state__exact=error">errors</a>',
            pages, task.pk, items, task.pk, pages, task.pk,
        )  # fmt: skip

    @admin.display(description="pages by code")
    def code(self, task: Task) -> str:
        return pages_by_version(task) or "-"

    @admin.display(description="arguments")
    def shown_arguments(self, task: Task) -> SafeString:
        return pretty(task.arguments)

    @admin.display(description="limits")
    def shown_settings(self, task: Task) -> SafeString:
        return pretty(task.settings)

    # Nobody edits a task, but who may change tasks may steer them.
    def has_steer_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("crawlservice.change_task")

    @admin.action(description="Pause selected tasks", permissions=["steer"])
    def pause(self, request: HttpRequest, tasks: QuerySet[Task]) -> None:
        self._steer(request, tasks, pause, "paused")

    @admin.action(description="Resume selected tasks", permissions=["steer"])
    def resume(self, request: HttpRequest, tasks: QuerySet[Task]) -> None:
        self._steer(request, tasks, resume, "resumed")

    @admin.action(description="Cancel selected tasks", permissions=["steer"])
    def cancel(self, request: HttpRequest, tasks: QuerySet[Task]) -> None:
        self._steer(request, tasks, cancel, "cancelled")

    def _steer(
        self, request: HttpRequest, tasks: Iterable[Task], verb: Callable[[int], None], done: str
    ) -> None:
        changed = 0
        for task in tasks:
            try:
                verb(task.pk)
            except CrawlframeError as error:
                self.message_user(request, str(error), messages.ERROR)
            else:
                changed += 1
        if changed:
            self.message_user(request, f"tasks {done}: {changed}", messages.SUCCESS)
