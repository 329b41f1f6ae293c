"""Kept pages in the admin: copies of answers of sites. The right to see the list does not include
their contents, which may hold data of persons."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import QuerySet
from django.utils.translation import gettext_lazy as _

from crawlservice.admin.pages import page as keptpage
from crawlservice.admin.parts.columns import column
from crawlservice.admin.parts.created import filter_by
from crawlservice.admin.parts.own_page import RowPage
from crawlservice.admin.parts.recent import RecentSpider, RecentTask
from crawlservice.admin.parts.search import UrlRows
from crawlservice.display import moment
from crawlservice.models import KeptPage

RECENT_PAGES = 2_000  # pages whose values are offered by filters
MAX_VALUES = 50  # values offered


def _recent(title: Any, column: str) -> type[admin.SimpleListFilter]:
    """The values of a column in the latest pages; any other one is taken, too."""

    def offered() -> list[tuple[str, str]]:
        rows = KeptPage.objects.order_by("-pk").values_list(column, flat=True)[:RECENT_PAGES]
        return [(value, value) for value in sorted({*map(str, rows)} - {""})[:MAX_VALUES]]

    def having(rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        if column == "status" and not (value.isdecimal() and len(value) < 5):
            return rows.none()
        return rows.filter(**{column: value})

    return filter_by(title, column, offered, having, takes_any=True)


RecentHost = _recent(_("host"), "host")
RecentKeptReason = _recent(_("reason"), "reason")
RecentStatus = _recent(_("HTTP status"), "status")


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
