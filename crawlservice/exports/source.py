"""Source: the rows that an export wants, in commit order, as records."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

from django.db.models import Case, Min, QuerySet, Subquery, When
from django.db.models.functions import Coalesce

from crawlframe.items.key_order import in_order
from crawlservice.connections import clock
from crawlservice.exports.addresses import BadExport
from crawlservice.ledger.commit_order import CommitOrder
from crawlservice.models import Export, Item, Page
from crawlservice.tasks.label_rows import tasks_with
from crawlservice.tasks.results.item_filter import of_items, of_pages, read_filters
from crawlservice.tasks.results.task_rows import all_before

FORM = "write beginning, now, a date such as 2026-11-01 or 2026-11-01T06:00Z, or a row number"
LOCK_SECONDS = 1.0  # seconds to wait for transactions that write rows
CHUNK = 500  # rows in memory at a time
WINDOW = 20_000  # numbers that one query looks through
COUNTED_ROWS = 50_000  # row numbers that are read to count the rows left
KEY = "_key"  # identifies a row for ever, in every target
ITEM = (
    "pk",
    "created_at",
    "task_id",
    "task__spider",
    "rid",
    "ordinal",
    "version",
    "data",
    "key_order",
)
PAGE = (
    "pk", "created_at", "task_id", "task__spider", "rid", "version", "url", "callback", "state",
    "reason", "detail", "status", "depth", "attempts", "size", "fetch_ms", "items", "redirects",
    "stats", "usage",
)  # fmt: skip


class ExportRow(NamedTuple):
    """``record``: the exported fields of a row."""

    number: int
    stored_at: datetime
    record: dict[str, Any]


class RowPart(NamedTuple):
    """Some rows; all up to number ``reached`` have been looked at."""

    rows: list[ExportRow]
    reached: int


class Left(NamedTuple):
    """The number of rows before an export; ``more``: at least so many."""

    rows: int
    more: bool

    def __str__(self) -> str:
        return f"{self.rows:,}{'+' if self.more else ''}"


def parts(export: Export, after: int, until: int) -> Iterator[RowPart]:
    """The export's rows after number ``after`` and up to ``until``. Raises django.db.Error."""
    wanted = wanted_by(export)
    columns = PAGE if export.what == Export.What.PAGES else ITEM
    while after < until:
        end = min(after + WINDOW, until)
        rows = wanted.filter(pk__gt=after, pk__lte=end).order_by("pk")
        found = [_row(export, dict(zip(columns, row, strict=True))) for row in _some(rows, columns)]
        if len(found) == CHUNK:
            after = found[-1].number
        elif found:
            after = end
        else:
            following = rows_of(export.what).filter(pk__gt=end, pk__lte=until)
            after = (following.aggregate(first=Min("pk"))["first"] or until + 1) - 1
        yield RowPart(found, after)


def wanted_by(export: Export) -> QuerySet[Any]:
    """The rows that the export means, those exported already among them."""
    rows = rows_of(export.what)
    if export.spider:
        rows = rows.filter(task__spider=export.spider)
    if export.task is not None:
        rows = rows.filter(task_id=export.task)
    for name, value in export.labels.items():
        rows = rows.filter(task__in=tasks_with(f"{name}={value}"))
    if export.since is not None:
        rows = rows.filter(created_at__gte=export.since)
    if filters := read_filters(export.usage or None):
        pages = export.what == Export.What.PAGES
        rows = of_pages(rows, filters) if pages else of_items(rows, filters)
    return rows


def with_newest(exports: QuerySet[Export]) -> QuerySet[Export]:
    """The exports with the number of the newest row of their table, as ``newest``."""
    newest = {
        what: Coalesce(Subquery(rows_of(what).order_by("-pk").values("pk")[:1]), 0)
        for what in Export.What
    }
    cases = (When(what=what, then=number) for what, number in newest.items())
    return exports.annotate(newest=Case(*cases))


def left(export: Export) -> Left:
    """The rows that are not exported yet, counted over COUNTED_ROWS numbers at most: for one
    export, not for lists. Raises django.db.Error."""
    end = export.position + COUNTED_ROWS
    newest = rows_of(export.what).order_by("-pk").values_list("pk", flat=True).first() or 0
    rows = wanted_by(export).filter(pk__gt=export.position, pk__lte=end)
    return Left(rows.order_by().count(), newest > end)


def _some(rows: QuerySet[Any], columns: tuple[str, ...]) -> list[tuple[Any, ...]]:
    return [*rows.values_list(*columns)[:CHUNK]]


def _row(export: Export, row: dict[str, Any]) -> ExportRow:
    number, stored = row.pop("pk"), row.pop("created_at")
    rid = row.pop("rid").hex
    ours: dict[str, Any]
    if export.what == Export.What.PAGES:
        ours = {KEY: rid, "_page": number}
    else:
        ours = {KEY: f"{rid}-{row['ordinal']}", "_item": number}
    ours |= {"_task": row.pop("task_id"), "_spider": row.pop("task__spider")}
    if export.what == Export.What.PAGES:
        ours |= {"_version": row.pop("version"), "_stored_at": stored.isoformat()}
        fields = row
    else:
        ours |= {"_request": rid, "_position": row["ordinal"]}
        ours |= {"_version": row["version"], "_stored_at": stored.isoformat()}
        fields = in_order(row["data"], row["key_order"])
    chosen = export.fields or fields
    # A field of the name of one of ours gets an underscore more.
    theirs = {
        f"{name}_" if name in ours else name: fields[name] for name in chosen if name in fields
    }
    return ExportRow(number, stored, ours | theirs)


def state_of(export: Export) -> str:
    """``running``, ``failing``, ``paused``, or ``removed`` from the file that defined it."""
    if not export.listed:
        return "removed"
    if export.paused:
        return "paused"
    return "failing" if export.problem else "running"


def held(tasks: Collection[int]) -> dict[int, list[str]]:
    """Tasks with rows that an active export wants and has not exported, with the names of the
    exports. Raises django.db.Error."""
    found: defaultdict[int, list[str]] = defaultdict(list)
    for export in Export.active_ones():
        rows = wanted_by(export).filter(task_id__in=tasks, pk__gt=export.position)
        for task in rows.order_by().values_list("task_id", flat=True).distinct():
            found[task].append(export.name)
    return dict(found)


class Start(NamedTuple):
    """The rows after number ``position`` that were stored at ``since`` or later, if it is set."""

    position: int = 0
    since: datetime | None = None


def rows_of(what: str) -> QuerySet[Any]:
    """All rows that an export of items or pages may have."""
    return Page.objects.all() if what == Export.What.PAGES else Item.objects.all()


def start_of(what: str, begin: str) -> Start:
    """``begin``: see FORM. Raises BadExport and django.db.Error."""
    text = begin.strip()
    if text in ("", "beginning"):
        return Start()
    if text == "now":
        return Start(_now(what))
    if text.isascii() and text.isdecimal() and len(text) < 19:
        return Start(max(0, int(text) - 1))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise BadExport("begin", f"{begin!r} is no point to start at: {FORM}") from None
    try:
        moment = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
        return Start(all_before(rows_of(what).model, moment), moment)
    except OverflowError:
        raise BadExport("begin", f"{begin!r} is too far away: {FORM}") from None


def _now(what: str) -> int:
    """The number up to which all rows are there. Numbers are given out before rows are committed,
    so open transactions are waited for. If one is open for long, rows of the last minutes are
    exported, too: none is lost."""
    model = rows_of(what).model
    order, until = CommitOrder(model), time.monotonic() + LOCK_SECONDS
    while not (settled := order.settled()) and rows_of(what).exists():
        if time.monotonic() > until:
            return all_before(model, clock.now())
        time.sleep(LOCK_SECONDS / 20)
    return settled
