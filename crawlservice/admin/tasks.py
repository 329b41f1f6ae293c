"""Tasks in the admin: the list with live numbers, and actions on several at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from crawlframe.errors import CrawlframeError
from crawlservice.accounts.journal import by, record
from crawlservice.accounts.roles import may_submit
from crawlservice.admin import taskpage
from crawlservice.admin.created import Created
from crawlservice.admin.keyset import KeysetList
from crawlservice.admin.ownpage import OwnPage, RowPage
from crawlservice.admin.recent import RecentLabel, RecentSpider, RecentUser
from crawlservice.admin.steering import DONE, steer
from crawlservice.display import moment, state_badge, state_label
from crawlservice.exports.retention import held
from crawlservice.models import Task
from crawlservice.tasks.progress import Progress, read
from crawlservice.tasks.removal import Extent, extent, remove
from crawlservice.tasks.retry import ENDED
from crawlservice.tasks.submit import SWEEP

ERRORS = "state__exact=error"
MAX_DELETED_ROWS = 500_000  # rows deleted while a user waits for the page


class TaskList(KeysetList):
    """Adds to every task on the page its progress, with one query to Redis."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        for progress in read(self.result_list):
            progress.task.progress = progress  # type: ignore[attr-defined]


def _progress_of(task: Task) -> Progress:
    found: Progress | None = getattr(task, "progress", None)
    return found or read([task])[0]


def _number(name: str, title: Any) -> Callable[[TaskAdmin, Task], str]:
    @admin.display(description=title)
    def column(self: TaskAdmin, task: Task) -> str:
        return f"{getattr(_progress_of(task), name):,}"

    return column


class Status(admin.SimpleListFilter):
    """Filter by state or outcome: the one word that is shown."""

    title = _("state")
    parameter_name = "status"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        words = (*Task.ACTIVE, *Task.Outcome)
        return [(word.value, str(state_label(word)[0])) for word in words]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Task]) -> QuerySet[Task]:
        word = self.value()
        if word is None:
            return queryset
        column = "state" if word in Task.ACTIVE else "outcome"
        return queryset.filter(**{column: word})


@admin.register(Task)
class TaskAdmin(OwnPage):
    row_page: ClassVar[RowPage] = taskpage
    list_display = (
        "id", "spider", "shown_labels", "shown_state", "requests", "done", "errors", "left",
        "parked", "item_count", "user", "created", "ended", "links",
    )  # fmt: skip
    list_display_links = ("id", "spider")
    list_filter = (Status, RecentSpider, RecentLabel, RecentUser, Created)
    list_select_related = ("user",)
    search_fields = ("=id", "spider")
    search_help_text = _("Number or spider")
    actions = ("pause", "resume", "cancel")

    requests = _number("na", _("requests"))
    done = _number("nf", _("done"))
    errors = _number("errors", _("errors"))
    left = _number("nr", _("left"))
    parked = _number("parked", _("parked"))
    item_count = _number("items", _("items"))

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[KeysetList]:
        return TaskList

    def get_queryset(self, request: HttpRequest) -> QuerySet[Task]:
        rows: QuerySet[Task] = super().get_queryset(request)
        return rows.defer("seeds")

    @admin.display(description=_("state"))
    def shown_state(self, task: Task) -> SafeString:
        badge = state_badge(task.status)
        if not task.reason:
            return badge
        return format_html('{}<span class="cf-why">{}</span>', badge, task.reason)

    @admin.display(description=_("ended at"))
    def ended(self, task: Task) -> SafeString | str:
        return moment(task.finished_at)

    @admin.display(description="")
    def links(self, task: Task) -> SafeString:
        pages = f"{reverse('admin:crawlservice_page_changelist')}?task={task.pk}"
        items = f"{reverse('admin:crawlservice_item_changelist')}?task={task.pk}"
        places = [(pages, _("pages")), (items, _("items"))]
        if _progress_of(task).errors:
            places.append((f"{pages}&{ERRORS}", _("errors")))
        return format_html_join(" ", '<a class="cf-link" href="{}">{}</a>', places)

    # Ended tasks can be deleted; nobody edits any.
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
            text = gettext(
                "Too many rows to delete from here. Use: python manage.py prune --task ID"
            )
            kept.append(text)
        return [str(task) for task in chosen], counts, set(), kept

    def delete_model(self, request: HttpRequest, obj: Task) -> None:
        self.delete_queryset(request, Task.objects.filter(pk=obj.pk))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Task]) -> None:
        numbers = sorted(queryset.values_list("pk", flat=True))
        parts = remove(Task.objects.filter(pk__in=numbers), held)
        gone = Extent(*(sum(part) for part in zip(*parts, strict=True)))
        told = gone._asdict() | {"tasks": numbers}
        record("delete_task", **by(request), **told)

    # Whether the user may control a task is checked for each.
    def has_steer_permission(self, request: HttpRequest) -> bool:
        return may_submit(request.user) or request.user.has_perm("crawlservice.steer_task")

    @admin.action(description=_("Pause selected tasks"), permissions=["steer"])
    def pause(self, request: HttpRequest, tasks: QuerySet[Task]) -> None:
        self._steer(request, tasks, "pause")

    @admin.action(description=_("Resume selected tasks"), permissions=["steer"])
    def resume(self, request: HttpRequest, tasks: QuerySet[Task]) -> None:
        self._steer(request, tasks, "resume")

    @admin.action(description=_("Cancel selected tasks"), permissions=["steer"])
    def cancel(self, request: HttpRequest, tasks: QuerySet[Task]) -> None:
        self._steer(request, tasks, "cancel")

    def _steer(self, request: HttpRequest, tasks: QuerySet[Task], verb: str) -> None:
        changed, until = 0, time.monotonic() + SWEEP
        for task in tasks:
            try:
                steer(request, task, verb, max(0.0, until - time.monotonic()))
            except (CrawlframeError, PermissionDenied) as error:
                self.message_user(request, f"{task}: {error}", messages.ERROR)
            else:
                changed += 1
        if changed:
            self.message_user(request, str(DONE[verb]).format(n=changed), messages.SUCCESS)


def _open(task: Task) -> str:
    return gettext("{task} has not ended; cancel it first").format(task=task)
