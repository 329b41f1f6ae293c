"""Filters that offer the values of the latest rows; finding all values would read the whole
table."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.db.models import Max, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from crawlservice.admin.parts.created import filter_by
from crawlservice.admin.parts.keyset import chosen_task
from crawlservice.models import ErrorGroup, Label, Page, Task
from crawlservice.tasks.label_rows import labelled, tasks_with
from crawlservice.tasks.labels import BadLabel, parse
from crawlservice.tasks.results.task_rows import of_task

RECENT_ROWS = 20_000  # rows whose versions are offered
RECENT_ERRORS = 2_000  # errors whose reasons are offered
RECENT_TASKS = 1_000  # tasks whose spiders and users are offered
MOST_LABELS = 100  # labels offered
RECENT_GROUPS = 20  # groups of errors that are offered
TASKS = 100  # tasks of a spider whose pages and items are shown


class RecentTask(admin.SimpleListFilter):
    """The latest tasks; ``?task=7`` takes any."""

    title = _("task")
    parameter_name = "task"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(str(task.pk), str(task)) for task in Task.objects.only("spider")[:20]]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() is None:
            return queryset
        task = chosen_task(request)
        return queryset.none() if task is None else of_task(queryset, task)


class RecentSpider(admin.SimpleListFilter):
    """Spiders of the latest tasks; ``?spider=shop`` takes any. Of pages and items, only the
    spider's latest TASKS tasks are searched."""

    title = _("spider")
    parameter_name = "spider"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        latest = Task.objects.order_by("-pk").values_list("spider", flat=True)[:RECENT_TASKS]
        return [(spider, spider) for spider in sorted(set(latest))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if not self.value():
            return queryset
        if queryset.model is Task:
            return queryset.filter(spider=self.value())
        tasks = Task.objects.filter(spider=self.value()).order_by("-pk")
        return queryset.filter(task__in=[*tasks.values_list("pk", flat=True)[:TASKS]])


class RecentLabel(admin.SimpleListFilter):
    """Labels of the latest tasks; ``?label=domain=news`` takes any. Rows of tasks with a label are
    found by the list (KeysetList), which knows the fast order."""

    title = _("label")
    parameter_name = "label"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        newest = Task.objects.aggregate(pk=Max("pk"))["pk"] or 0
        rows = Label.objects.filter(task__gt=newest - RECENT_TASKS).order_by("name", "value")
        found = {f"{name}={value}" for name, value in rows.values_list("name", "value")}
        if chosen := self.value():
            found.add(chosen)
        return [(label, label) for label in sorted(found)[:MOST_LABELS]]

    def has_output(self) -> bool:
        return True

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        label = self.value()
        if label is None:
            return queryset
        try:
            parse(label)
        except BadLabel as error:
            raise ValueError(str(error)) from None
        if queryset.model is Task:
            return labelled(queryset, label)
        task = chosen_task(request)
        has = task is None or tasks_with(label).filter(task=task).exists()
        return queryset if has else queryset.none()


def _recent_users() -> list[tuple[str, str]]:
    """Users who submitted one of the latest tasks."""
    latest = Task.objects.order_by("-pk").values("user")[:RECENT_TASKS]
    numbers = {row["user"] for row in latest} - {None}
    users = get_user_model().objects.filter(pk__in=numbers).order_by("username")
    return [(str(user.pk), user.get_username()) for user in users]


RecentUser = filter_by(
    *(_("user"), "user", _recent_users),
    lambda rows, user: rows.filter(user=user) if user.isdecimal() else rows.none(),
)


class RecentReason(admin.SimpleListFilter):
    """Reasons of the latest errors; finding all would read the whole ledger."""

    title = _("reason")
    parameter_name = "reason"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        failed = Page.objects.filter(state=Page.State.ERROR).order_by("-id")
        latest = failed.values_list("reason", flat=True)[:RECENT_ERRORS]
        return [(reason, reason) for reason in sorted(set(latest)) if reason]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        failed = queryset.filter(state=Page.State.ERROR)
        return failed.filter(reason=self.value()) if self.value() else queryset


class RecentGroup(admin.SimpleListFilter):
    """The newest groups of errors; ``?group=7`` takes any."""

    title = _("cause")
    parameter_name = "group"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        rows = ErrorGroup.objects.order_by("-created_at")
        found = {str(row.pk): str(row) for row in rows[:RECENT_GROUPS]}
        if (chosen := self.value()) and chosen.isdecimal() and chosen not in found:
            row = rows.filter(pk=int(chosen)).first() if len(chosen) < 19 else None
            found[chosen] = str(row or chosen)
        return [*found.items()]

    def has_output(self) -> bool:
        return True

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        if value is None:
            return queryset
        if not value.isdecimal() or len(value) > 18:
            return queryset.none()
        return queryset.filter(error_group__gte=int(value), error_group__lte=int(value))


class RecentVersion(admin.SimpleListFilter):
    """Code versions of the latest rows; ``?version=1f00c0ffee00`` takes any."""

    title = _("code version")
    parameter_name = "version"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        rows = model_admin.model.objects.order_by()
        newest = rows.aggregate(pk=Max("pk"))["pk"] or 0
        latest = rows.filter(pk__gt=newest - RECENT_ROWS).values_list("version", flat=True)
        found = latest.annotate(last=Max("pk")).order_by("-last")
        return [(version, version) for version in found if version]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(version=self.value()) if self.value() else queryset
