"""Pages, items and events in the admin, to look at."""

from __future__ import annotations

import json
from uuid import UUID

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from crawlservice.admin.readonly import ReadOnly
from crawlservice.admin.recent import RecentReason, RecentTask, RecentVersion
from crawlservice.models import Era, Event, Item, Page
from crawlservice.shown import pretty


@admin.register(Page)
class PageAdmin(ReadOnly):
    list_display = (
        "id", "task_id", "state", "reason", "status", "url", "callback", "version", "depth",
        "attempts", "size", "fetch_ms", "items", "created_at",
    )  # fmt: skip
    list_filter = ("state", RecentReason, RecentVersion, RecentTask)
    search_fields = ("url",)
    exclude = ("follow_ups", "request")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Page]:
        rows: QuerySet[Page] = super().get_queryset(request)
        return rows.defer("follow_ups", "request", "detail")


@admin.register(Item)
class ItemAdmin(ReadOnly):
    list_display = ("id", "task_id", "short", "version", "created_at")
    list_filter = (RecentVersion, RecentTask)
    fields = ("task", "rid", "page", "ordinal", "version", "created_at", "shown_data")
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


@admin.register(Event)
class EventAdmin(ReadOnly):
    list_display = ("id", "task_id", "kind", "created_at", "delivered_at")
    list_filter = ("kind", RecentTask)


@admin.register(Era)
class EraAdmin(ReadOnly):
    list_display = ("number", "reason", "started_at", "opened_at")


def _page_of(rid: UUID) -> Page | None:
    return Page.objects.only("url").filter(rid=rid).first()
