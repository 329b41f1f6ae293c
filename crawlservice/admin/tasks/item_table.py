"""The page that shows the items of a task as a table, and its download. All of its state is in the
URL."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    HttpResponseRedirect,
    QueryDict,
    StreamingHttpResponse,
)
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from crawlframe.errors import CrawlframeError
from crawlservice.admin.parts.keyset import row_number
from crawlservice.admin.parts.steering import note
from crawlservice.models import Task
from crawlservice.tasks.results import export
from crawlservice.tasks.results.item_filter import BadItemFilter, ItemFilter, is_empty, text_of
from crawlservice.tasks.results.item_table import (
    Column,
    ItemRow,
    Window,
    arranged,
    columns,
    latest,
    shown,
)

ROWS = 50  # of one page
CELL = 200  # characters of a cell
FILTERS = 20  # at most
WORDS = (
    ("is", _("is")),
    ("contains", _("contains")),
    ("empty", _("is empty")),
    ("filled", _("is not empty")),
    ("min", _("is at least")),
    ("max", _("is at most")),
)
CONTENT_TYPE = "application/octet-stream"


class ItemTableView(NamedTuple):
    """What the URL says. ``problems``: what it says and cannot be applied."""

    filters: list[ItemFilter]
    chosen: list[str]
    sort: str
    page: int
    before: int | None
    problems: list[str]

    @classmethod
    def of(cls, given: QueryDict) -> ItemTableView:
        filters, problems = [], []
        parts = (given.getlist(name) for name in ("field", "operator", "value"))
        for field, operator, value in [*zip(*parts, strict=False)][:FILTERS]:
            try:
                if field:
                    filters.append(ItemFilter.make(field, operator, value))
            except BadItemFilter as error:
                problems.append(str(error))
        page = row_number(given.get("page")) or 1
        before = row_number(given.get("before"))
        return cls(filters, given.getlist("column"), given.get("sort", ""), page, before, problems)

    def query(self, **changed: Any) -> str:
        """The query string of this view with other values. Another view begins at its first
        page."""
        now = self._replace(**({"page": 1} | changed))
        words: list[tuple[str, Any]] = []
        for one in now.filters:
            words += [("field", one.field), ("operator", one.operator), ("value", one.value)]
        words += [("column", name) for name in now.chosen]
        if now.sort:
            words.append(("sort", now.sort))
        if now.before is not None:
            words.append(("before", now.before))
        if now.page > 1:
            words.append(("page", now.page))
        return "?" + urlencode(words)


class Head(NamedTuple):
    column: Column
    share: float  # of empty values, percent
    sort: str  # query string that sorts by it
    mark: str  # how it is sorted now: ascending, descending or none


def urls(site: AdminSite) -> list[URLPattern]:
    name = "crawlservice_task_{}".format

    @require_safe
    def shown_page(request: HttpRequest, pk: int) -> HttpResponse:
        return page(site, request, pk)

    return [
        path("<int:pk>/table/", site.admin_view(shown_page), name=name("table")),
        path(
            "<int:pk>/table/<slug:suffix>/", site.admin_view(download), name=name("table_download")
        ),
    ]


def task_of(request: HttpRequest, pk: int) -> Task:
    """Raises PermissionDenied and Http404."""
    if not request.user.has_perm("crawlservice.view_item"):
        raise PermissionDenied
    if row_number(pk) is None:
        raise Http404
    return get_object_or_404(Task.objects.defer("seeds"), pk=pk)


def page(site: AdminSite, request: HttpRequest, pk: int) -> HttpResponse:
    task, view = task_of(request, pk), ItemTableView.of(request.GET)
    window = latest(pk, view.before)
    known = columns(window.rows)
    if {one.name for one in known} <= {*view.chosen}:
        view = view._replace(chosen=[])  # as all boxes of the form are checked at first
    chosen = [one for one in known if not view.chosen or one.name in view.chosen]
    found = arranged(window.rows, view.filters, view.sort)
    pages = max(1, -(-len(found) // ROWS))
    number = min(view.page, pages)
    context: dict[str, Any] = {
        **site.each_context(request),
        "title": _("Items of {task}").format(task=task),
        "opts": Task._meta,
        "is_fullwidth": "1",
        "task": task,
        "view": view,
        "window": window,
        "known": known,
        "chosen": {one.name for one in chosen},
        "heads": [_head(view, one, len(window.rows)) for one in chosen],
        "rows": [_cells(row, chosen) for row in found[(number - 1) * ROWS : number * ROWS]],
        "found": len(found),
        "number": number,
        "pages": pages,
        "words": WORDS,
        "formats": [suffix.removeprefix(".") for suffix in export.FORMATS],
        "is_sample_sorted": bool(view.sort) and not window.is_all,
        "query": view.query(page=1),
        **_turns(view, window, number, pages),
    }
    return TemplateResponse(request, "admin/crawlservice/item_table.html", context)


def _head(view: ItemTableView, column: Column, rows: int) -> Head:
    down = f"-{column.name}"
    mark = {column.name: "ascending", down: "descending"}.get(view.sort, "none")
    to = {"ascending": down, "descending": ""}.get(mark, column.name)
    return Head(column, 100 * column.empty / max(1, rows), view.query(sort=to), mark)


def _cells(row: ItemRow, chosen: list[Column]) -> tuple[int, list[str]]:
    return row.number, [cell(row.data.get(one.name)) for one in chosen]


def cell(value: Any) -> str:
    if is_empty(value):
        return ""
    text = text_of(value)
    return text if len(text) <= CELL else f"{text[: CELL - 1]}…"


def _turns(view: ItemTableView, window: Window, number: int, pages: int) -> dict[str, str]:
    older = window.rows[-1].number if window.older else None
    return {
        "next": view.query(page=number + 1) if number < pages else "",
        "previous": view.query(page=number - 1) if number > 1 else "",
        "older": view.query(before=older) if older is not None else "",
        "newest": view.query(before=None) if view.before is not None else "",
        "unfiltered": view.query(filters=[]) if view.filters else "",
    }


@require_safe
def download(request: HttpRequest, pk: int, suffix: str) -> HttpResponseBase:
    """What the page shows: the items that its filters mean, with its columns; sorted, those that
    were looked at, otherwise all of the task."""
    task, view = task_of(request, pk), ItemTableView.of(request.GET)
    if f".{suffix}" not in export.FORMATS:
        raise Http404
    chunks = export.Items(task).chunks
    if view.sort:
        rows = arranged(latest(pk, view.before).rows, (), view.sort)

        def chunks() -> Iterator[list[Any]]:
            yield [row.data for row in rows]

    try:
        if view.problems:
            raise BadItemFilter(view.problems[0])
        pieces = export.stream_chunks(shown(chunks, view.filters, view.chosen), f".{suffix}")
    except CrawlframeError as error:
        messages.error(request, str(error))
        place = reverse("admin:crawlservice_task_table", args=[pk])
        return HttpResponseRedirect(place + view.query())
    note(request, "export", task, format=suffix, table=view.query().removeprefix("?"))
    return file(pieces, f"task-{pk}-table.{suffix}")


def file(pieces: Iterator[bytes], name: str) -> HttpResponseBase:
    safe = re.sub(r"[^\w.-]", "_", name)
    return StreamingHttpResponse(
        pieces,
        content_type=CONTENT_TYPE,
        headers={"Content-Disposition": f'attachment; filename="{safe}"'},
    )
