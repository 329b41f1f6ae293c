"""Filters that offer what the latest rows hold; asking for all would read the whole table."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Max, QuerySet
from django.http import HttpRequest

from crawlservice.models import Page, Task

RECENT = 20_000  # rows whose reasons or versions are offered


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
        latest = Page.objects.order_by("-id").values_list("reason", flat=True)[:RECENT]
        return [(reason, reason) for reason in sorted(set(latest)) if reason]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(reason=self.value()) if self.value() else queryset


class RecentVersion(admin.SimpleListFilter):
    """Code versions of the latest rows; ``?version=1f00c0ffee00`` takes any."""

    title = "code version"
    parameter_name = "version"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        rows = model_admin.model.objects.order_by()
        newest = rows.aggregate(pk=Max("pk"))["pk"] or 0
        latest = rows.filter(pk__gt=newest - RECENT).values_list("version", flat=True)
        found = latest.annotate(last=Max("pk")).order_by("-last")
        return [(version, version) for version in found if version]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(version=self.value()) if self.value() else queryset
