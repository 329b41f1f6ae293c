"""The admin: tasks with their progress and actions; pages, items, nodes and events to look at."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.html import format_html
from django.utils.safestring import SafeString

from crawlframe.errors import CrawlframeError
from crawlservice.models import Event, Generation, Item, Page, Task
from crawlservice.progress import Progress, read
from crawlservice.submit import cancel, pause, resume

COUNTED = 10_000  # rows up to which a list is counted: a count of millions takes seconds
RECENT_ERRORS = 20_000  # ledger rows whose reasons are offered as filter

admin.site.site_header = admin.site.site_title = "Crawlframe"


class BoundedPaginator(Paginator):
    """Ends after COUNTED rows; filters lead to the others."""

    @cached_property
    def count(self) -> int:
        rows: QuerySet[Any] = self.object_list[:COUNTED]  # type: ignore[assignment]
        return rows.count()


class ReadOnly(admin.ModelAdmin):
    """Shows rows. The ledger and what follows from it are written by nodes only."""

    show_full_result_count = False
    paginator = BoundedPaginator
    list_per_page = 50
    actions: Sequence[str] | None = None

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


class RecentTask(admin.SimpleListFilter):
    """The latest tasks; ``?task=7`` takes any."""

    title = "task"
    parameter_name = "task"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(str(task.pk), str(task)) for task in Task.objects.only("spider")[:20]]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        if value is None:
            return queryset
        return queryset.filter(task=value) if value.isdecimal() else queryset.none()


class RecentReason(admin.SimpleListFilter):
    """Reasons of the latest errors; asking for all of them would read the whole ledger."""

    title = "reason"
    parameter_name = "reason"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        latest = Page.objects.order_by("-id").values_list("reason", flat=True)[:RECENT_ERRORS]
        return [(reason, reason) for reason in sorted(set(latest)) if reason]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(reason=self.value()) if self.value() else queryset


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
        "errors", "remaining", "parked", "item_count", "created_at", "finished_at", "links",
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
        return super().get_queryset(request).defer("seeds")

    @admin.display(description="")
    def links(self, task: Task) -> SafeString:
        pages = reverse("admin:crawlservice_page_changelist")
        items = reverse("admin:crawlservice_item_changelist")
        return format_html(
            '<a href="{}?task={}">pages</a> <a href="{}?task={}">items</a> '
            '<a href="{}?task={}&state__exact=error">errors</a>',
            pages, task.pk, items, task.pk, pages, task.pk,
        )  # fmt: skip

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


@admin.register(Page)
class PageAdmin(ReadOnly):
    list_display = (
        "id", "task_id", "state", "reason", "status", "url", "callback", "depth", "attempts",
        "size", "fetch_ms", "items", "created_at",
    )  # fmt: skip
    list_filter = ("state", RecentReason, RecentTask)
    search_fields = ("url",)
    exclude = ("follow_ups", "request")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Page]:
        return super().get_queryset(request).defer("follow_ups", "request", "detail")


@admin.register(Item)
class ItemAdmin(ReadOnly):
    list_display = ("id", "task_id", "short", "created_at")
    list_filter = (RecentTask,)
    fields = ("task", "rid", "page", "ordinal", "created_at", "shown_data")
    readonly_fields = ("page", "shown_data")

    @admin.display(description="data")
    def short(self, item: Item) -> str:
        text = json.dumps(item.data, ensure_ascii=False)
        return text if len(text) <= 120 else f"{text[:119]}…"

    @admin.display(description="data")
    def shown_data(self, item: Item) -> SafeString:
        return pretty(item.data)

    @admin.display(description="page")
    def page(self, item: Item) -> SafeString | str:
        page = _page_of(item.rid)
        if page is None:
            return "-"
        place = reverse("admin:crawlservice_page_change", args=[page.pk])
        return format_html('<a href="{}">{}</a>', place, page.url)


@admin.register(Generation)
class GenerationAdmin(ReadOnly):
    list_display = ("id", "node", "machine", "pid", "started_at")
    list_filter = ("node",)


@admin.register(Event)
class EventAdmin(ReadOnly):
    list_display = ("id", "task_id", "kind", "created_at", "delivered_at")
    list_filter = ("kind", RecentTask)


def pretty(data: Any) -> SafeString:
    """JSON laid out to be read, escaped."""
    text = json.dumps(data, ensure_ascii=False, indent=2)
    return format_html('<pre style="white-space:pre-wrap;margin:0">{}</pre>', text)


def _page_of(rid: UUID) -> Page | None:
    return Page.objects.only("url").filter(rid=rid).first()
