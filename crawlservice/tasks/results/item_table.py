"""Items as a table: rows of a task's items, a column for each field, with its type and values.

Types, distinct values, filters and sorting need all values: they read one window of the items,
MAX_ITEMS at most, so that the largest task costs no more than a small one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from django.db.models import TextField
from django.db.models.functions import Cast

from crawlframe.items.key_order import in_order
from crawlservice.models import Item
from crawlservice.tasks.results.column_types import type_of
from crawlservice.tasks.results.item_filter import ItemFilter, is_empty, rank
from crawlservice.tasks.results.task_rows import of_task

MAX_ITEMS = 5_000  # items
LOOKED_BYTES = 16_000_000  # bytes of their JSON, more or less
STEP = 500  # items of one query


class ItemRow(NamedTuple):
    number: int
    data: dict[str, Any]


class Window(NamedTuple):
    """``is_all``: these are all items of the task. ``older``: there are older ones."""

    rows: list[ItemRow]
    is_all: bool
    older: bool


class Column(NamedTuple):
    """A field of the items that were looked at. ``types``: text, integer, number, boolean, list or
    object, the most frequent first. ``empty``: how many items have no value, or an empty one."""

    name: str
    types: list[str]
    empty: int
    distinct: int


def latest(task: int, before: int | None = None, most: int | None = None) -> Window:
    """The latest items of a task, or those before an item's number; newest first. ``most``:
    MAX_ITEMS by default."""
    rows: list[ItemRow] = []
    most = MAX_ITEMS if most is None else most
    size, more = 0, True
    items = Item.objects.annotate(text=Cast("data", TextField()))
    while more and len(rows) < most and size < LOOKED_BYTES:
        last = rows[-1].number if rows else before
        found = of_task(items, task, before=last, newest=True)
        found = found.values_list("pk", "text", "key_order")
        step = min(STEP, most - len(rows))
        some = [*found[: step + 1]]
        more = len(some) > step
        size += sum(len(text) for _, text, _ in some)
        rows += (ItemRow(pk, in_order(json.loads(text), order)) for pk, text, order in some[:step])
    return Window(rows, before is None and not more, more)


def columns(rows: Sequence[ItemRow]) -> list[Column]:
    """The columns of these items, in the order of the first use of their fields."""
    names = dict.fromkeys(name for row in rows for name in row.data)
    return [_column(name, [row.data.get(name) for row in rows]) for name in names]


def _column(name: str, values: Sequence[Any]) -> Column:
    kinds: dict[str, int] = {}
    seen = set()
    empty = 0
    for value in values:
        if is_empty(value):
            empty += 1
            continue
        kind = type_of(value)
        kinds[kind] = kinds.get(kind, 0) + 1
        nested = kind in ("list", "object")
        seen.add((kind, json.dumps(value, sort_keys=True) if nested else value))
    return Column(name, sorted(kinds, key=lambda kind: (-kinds[kind], kind)), empty, len(seen))


def arranged(
    rows: Sequence[ItemRow], filters: Sequence[ItemFilter] = (), sort: str = ""
) -> list[ItemRow]:
    """The rows that pass all filters, sorted by a field (``-price``: descending). Rows without a
    value are last either way."""
    found = [row for row in rows if all(one.means(row.data) for one in filters)]
    if not sort:
        return found
    field = sort.removeprefix("-")
    filled = [row for row in found if not is_empty(row.data.get(field))]
    filled.sort(key=lambda row: rank(row.data[field]), reverse=sort.startswith("-"))
    return filled + [row for row in found if is_empty(row.data.get(field))]


def shown(
    chunks: Callable[[], Iterator[list[Any]]],
    filters: Sequence[ItemFilter],
    chosen: Sequence[str],
) -> Callable[[], Iterator[list[Any]]]:
    """The items of ``chunks`` that pass all filters, with the chosen fields (none: with all)."""

    def some() -> Iterator[list[Any]]:
        for chunk in chunks():
            yield [picked(data, chosen) for data in chunk if all(f.means(data) for f in filters)]

    return some


def picked(data: Mapping[str, Any], chosen: Sequence[str]) -> Mapping[str, Any]:
    return {name: data.get(name) for name in chosen} if chosen else data
