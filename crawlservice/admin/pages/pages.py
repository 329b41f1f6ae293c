"""Kept pages in the admin: what sites sent. Who may see the list may not yet see their contents,
which may hold data of persons."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from crawlservice.admin.pages import page as keptpage
from crawlservice.admin.parts.columns import column
from crawlservice.admin.parts.own_page import RowPage
from crawlservice.admin.parts.recent import RecentSpider, RecentTask
from crawlservice.admin.parts.search import UrlRows
from crawlservice.display import moment
from crawlservice.models import KeptPage

RECENT_PAGES = 2_000  # pages whose values are offered by filters
MAX_VALUES = 50  # values offered


class _Recent(admin.SimpleListFilter):
    """The values of a column in the latest pages; any other one is taken, too."""

    column = ""

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        rows = KeptPage.objects.order_by("-pk").values_list(self.column, flat=True)[:RECENT_PAGES]
        values = {str(value) for value in rows} - {""}
        if chosen := self.value():
            values.add(chosen)
        return [(value, value) for value in sorted(values)[:MAX_VALUES]]

    def has_output(self) -> bool:
        return True

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        return queryset.filter(**{self.column: value}) if value else queryset


class RecentHost(_Recent):
    title = _("host")
    parameter_name = column = "host"


class RecentKeptReason(_Recent):
    title = _("reason")
    parameter_name = column = "reason"


class RecentStatus(_Recent):
    title = _("HTTP status")
    parameter_name = column = "status"

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        if value and not (value.isdecimal() and len(value) < 5):
            return queryset.none()
        return super().queryset(request, queryset)


@admin.register(KeptPage)
class KeptPageAdmin(UrlRows):
    row_page: ClassVar[RowPage] = keptpage
    list_display = ("id", "task_number", "reason", "status", "short_url", "size", "fetched")
    list_filter = (RecentKeptReason, RecentStatus, RecentHost, RecentSpider,
                   RecentTask)  # fmt: skip
    slow_filters = ("reason", "status", "host")
    list_select_related = ("body",)
    deferred = ("headers", "record", "follow_ups", "body__data")

    size = column(lambda page: f"{page.body.size:,}", _("size"))
    fetched = column(moment, _("fetched"), "fetched_at")
