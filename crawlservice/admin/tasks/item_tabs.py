"""The tabs of the items of a task: as a table, and compared with those of another run; and the rows
of their downloads. All of their state is in the URL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponseBase, QueryDict
from django.shortcuts import get_object_or_404
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from crawlframe.errors import CrawlframeError
from crawlservice.admin.parts.keyset import row_number
from crawlservice.admin.parts.pages import page
from crawlservice.admin.parts.steering import TASK, TaskView, task_of
from crawlservice.admin.tasks.ledger import picture_of
from crawlservice.display import in_words, link_to
from crawlservice.models import Item, PageFile, Task
from crawlservice.tasks.results import export
from crawlservice.tasks.results.comparison import Change, Compared, compared, whole
from crawlservice.tasks.results.item_filter import BadItemFilter, ItemFilter, is_empty
from crawlservice.tasks.results.item_table import (
    Column,
    ItemRow,
    Window,
    arranged,
    columns,
    latest,
    shown,
)
from crawlservice.templatetags.crawls import register

ROWS = 50  # of one page
CELL = 200  # characters of a cell
FILTERS = 20  # at most
MAX_CHANGES = 200  # changes of each kind on the page
KINDS = (("added", _("Added")), ("gone", _("Gone")), ("changed", _("Changed")))
FORMATS = [suffix.removeprefix(".") for suffix in export.FORMATS]
WORDS = (
    ("is", _("is")),
    ("contains", _("contains")),
    ("empty", _("is empty")),
    ("filled", _("is not empty")),
    ("min", _("is at least")),
    ("max", _("is at most")),
)
PICTURES = ("image/jpeg", "image/png")  # that are shown: other contents may be harmful


class ItemTableView(NamedTuple):
    """Parameters of the URL. ``problems``: parameters that cannot be applied."""

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
        """The query string of this view with other values. A changed view starts at its first
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


def table(request: HttpRequest, task_view: TaskView) -> dict[str, Any]:
    """The context of the template."""
    task = task_view.task
    view = ItemTableView.of(request.GET)
    window = latest(task.pk, view.before)
    known = columns(window.rows)
    if {one.name for one in known} <= {*view.chosen}:
        view = view._replace(chosen=[])  # as all boxes of the form are checked at first
    chosen = [one for one in known if not view.chosen or one.name in view.chosen]
    found = arranged(window.rows, view.filters, view.sort)
    pages = max(1, -(-len(found) // ROWS))
    number = min(view.page, pages)
    rows = found[(number - 1) * ROWS : number * ROWS]
    return {
        "view": view,
        "filters": [*view.filters, ItemFilter("", "is", "")],
        "window": window,
        "columns": known,
        "chosen": {one.name for one in chosen},
        "heads": [_head(view, one, len(window.rows)) for one in chosen],
        "rows": [_cells(task, row, chosen) for row in rows],
        "found": len(found),
        "number": number,
        "pages": pages,
        "words": WORDS,
        "formats": FORMATS,
        "is_sample_sorted": bool(view.sort) and not window.is_all,
        "query": view.query(page=1),
        **_turns(view, window, number, pages),
    }


@page(f"{TASK}/items/<int:item>/<slug:sha256>/", "crawlservice_task_picture", "view_page")
def picture(request: HttpRequest, pk: int, item: int, sha256: str) -> HttpResponseBase:
    """A picture that the page of an item has saved."""
    task_of(request, pk, "view_item")
    rid = get_object_or_404(Item.objects.only("rid"), pk=item, task=pk).rid
    return picture_of(PageFile.objects.filter(rid=rid), sha256)


def _head(view: ItemTableView, column: Column, rows: int) -> Head:
    down = f"-{column.name}"
    mark = {column.name: "ascending", down: "descending"}.get(view.sort, "none")
    to = {"ascending": down, "descending": ""}.get(mark, column.name)
    return Head(column, 100 * column.empty / max(1, rows), view.query(sort=to), mark)


def _cells(task: Task, row: ItemRow, chosen: list[Column]) -> tuple[int, list[SafeString | str]]:
    values = (row.data.get(one.name) for one in chosen)
    return row.number, [_picture(task, row, value) or cell(value) for value in values]


def _picture(task: Task, row: ItemRow, value: Any) -> SafeString | str:
    """The value of a field, if it is a saved picture."""
    if not isinstance(value, dict) or value.get("media_type") not in PICTURES:
        return ""
    try:
        place = reverse(
            "admin:crawlservice_task_picture", args=[task.pk, row.number, value["sha256"]]
        )
    except (KeyError, NoReverseMatch):  # an object of the spider's own
        return ""
    text = '<a href="{0}"><img class="cf-thumb" src="{0}" alt="{1}" loading="lazy"></a>'
    return format_html(text, place, value.get("url") or value["sha256"])


@register.filter
def cell(value: Any) -> SafeString | str:
    if is_empty(value):
        return ""
    text = in_words(value)
    return link_to(text) if len(text) <= CELL else f"{text[: CELL - 1]}…"


def _turns(view: ItemTableView, window: Window, number: int, pages: int) -> dict[str, str]:
    older = window.rows[-1].number if window.older else None
    return {
        "next": view.query(page=number + 1) if number < pages else "",
        "previous": view.query(page=number - 1) if number > 1 else "",
        "older": view.query(before=older) if older is not None else "",
        "newest": view.query(before=None) if view.before is not None else "",
        "unfiltered": view.query(filters=[]) if view.filters else "",
    }


def chosen_rows(request: HttpRequest, task: Task) -> Callable[[], Iterator[list[Any]]]:
    """The items that the filters mean, with the chosen columns; a sorted view has the rows of its
    window, others all rows of the task. Raises BadItemFilter."""
    view = ItemTableView.of(request.GET)
    if view.problems:
        raise BadItemFilter(view.problems[0])
    chunks = export.Items(task).chunks
    if view.sort:
        rows = arranged(latest(task.pk, view.before).rows, (), view.sort)

        def chunks() -> Iterator[list[Any]]:
            yield [row.data for row in rows]

    return shown(chunks, view.filters, view.chosen)


def comparison(request: HttpRequest, view: TaskView) -> dict[str, Any]:
    """The same of the tab that compares."""
    task = view.task
    given, key = request.GET.get("with", ""), request.GET.get("key", "")
    found: Compared | None = None
    problem = ""
    try:
        found = compared(task, _number(given), key)
    except CrawlframeError as error:
        problem = str(error)
    other, key = (given, key) if found is None else (found.old.pk, found.key)
    return {
        "found": found,
        "problem": problem,
        "other": other,
        "key": key,
        "parts": [] if found is None else [*_parts(found)],
        "query": "?" + urlencode({"with": other, "key": key}),
        "formats": FORMATS,
        "shown": MAX_CHANGES,
    }


def changes(request: HttpRequest, task: Task) -> Callable[[], Iterator[list[dict[str, Any]]]]:
    """All changes, whatever the size of the runs: one row for each field that differs. Raises
    BadComparison."""
    return whole(task, _number(request.GET.get("with", "")), request.GET.get("key", ""))


def _parts(found: Compared) -> Iterator[tuple[str, Any, int, list[Change]]]:
    """Each kind, its title, how many changes there are of it, and the first of them."""
    for kind, title in KINDS:
        some = [one for one in found.changes if one.kind == kind]
        yield kind, title, len(some), some[:MAX_CHANGES]


def _number(text: str) -> int | None:
    """The number that was typed; 0, which no task has, for other texts."""
    return (row_number(text) or 0) if text else None
