"""Items in the admin: the list with its search, and one item with the page it is from."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import admin
from django.db.models import Model, QuerySet, TextField
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import Truncator
from django.utils.translation import gettext_lazy as _

from crawlservice.admin.parts.filters import (
    Created,
    RecentLabel,
    RecentSpider,
    RecentTask,
    recent_version,
)
from crawlservice.admin.parts.keyset import SearchedList, latest
from crawlservice.admin.parts.lookups import column
from crawlservice.admin.parts.read_only import ReadOnly
from crawlservice.display import in_words, page_link, readable, task_link
from crawlservice.models import Item, Page, PageFile

ITEM_CHARS = 160  # characters of an item in the list


class PageOf(admin.SimpleListFilter):
    """``?rid=…``: the items of one page. The filter lists no choices."""

    title = _("page")
    parameter_name = "rid"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(self.value() or "", str(_("the items of one page")))] if self.value() else []

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if not self.value():
            return queryset
        try:
            return queryset.filter(rid=UUID(self.value()))
        except ValueError:
            return queryset.none()


@admin.register(Item)
class ItemAdmin(ReadOnly):
    list_display = ("id", "task_number", "short", "shown_labels", "version", "created")
    list_filter = (RecentSpider, RecentTask, RecentLabel, recent_version(Item), PageOf, Created)
    slow_filters = ("version",)
    search_fields = ("data",)
    search_help_text = _("Text, or field:text")
    fields = (
        "task_number", "shown_data", "page", "files", "ordinal", "version", "created_at", "rid",
    )  # fmt: skip
    changelist = SearchedList

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Model], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        return search(queryset, search_term, request), False

    @admin.display(description=_("task"))
    def task_number(self, item: Item) -> SafeString | str:
        table = page_link(_("table"), "task_items", item.task_id)
        return format_html("{} {}", task_link(item.task_id), table)

    short = column(lambda data: Truncator(in_words(data)).chars(ITEM_CHARS), _("data"), "data")
    shown_data = column(readable, _("data"), "data")

    @admin.display(description=_("page"))
    def page(self, item: Item) -> SafeString | str:
        page = Page.objects.only("url").filter(rid=item.rid).first()
        return page_link(page.url, "page_change", page.pk) if page else "-"

    @admin.display(description=_("files of the page"))
    def files(self, item: Item) -> SafeString | str:
        page = Page.objects.only("pk").filter(rid=item.rid).first()
        rows = PageFile.objects.select_related("file").filter(rid=item.rid, kind="") if page else ()
        links = [(page_link(row.url, "page_file", page.pk, row.file_id),) for row in rows if page]
        return format_html_join(mark_safe("<br>"), "{}", links) or "-"


def search(rows: QuerySet[Any], text: str, request: HttpRequest) -> QuerySet[Any]:
    """The newest rows that contain the text anywhere, or in one field (``field:text``)."""
    text = text.strip()
    if not text:
        return rows
    rows = latest(rows, request)
    found: QuerySet[Any]
    field, colon, value = text.partition(":")
    if colon and value and field.isidentifier():
        found = rows.annotate(text=KeyTextTransform(field, "data"))
        return found.filter(text__icontains=value.strip())
    found = rows.annotate(text=Cast("data", TextField()))
    return found.filter(text__icontains=text)
