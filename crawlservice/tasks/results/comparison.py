"""Compares the items of two runs by a key: added, gone and changed."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, NamedTuple

from crawlframe.errors import CrawlframeError
from crawlservice.models import Task
from crawlservice.tasks.results.export import CHUNK, Items
from crawlservice.tasks.results.item_filter import is_empty
from crawlservice.tasks.results.item_table import Column, ItemRow, columns, latest

MAX_ITEMS = 1_500  # items of each run on a page; a download has no limit
PREFERRED = ("url", "id", "sku", "key", "uid", "uuid", "link", "href")


class BadComparison(CrawlframeError):
    """Two runs that cannot be compared, or not by this key."""


class Change(NamedTuple):
    """``kind``: added, gone or changed. ``fields``: old and new value of each that differs; of an
    added or gone item, of all."""

    kind: str
    key: Any
    fields: dict[str, tuple[Any, Any]]


@dataclass
class Counts:
    """Complete when the comparison has been read to its end. ``repeated``: items with the key of an
    item before them, and ``unkeyed``: items without a key; neither are compared."""

    added: int = 0
    gone: int = 0
    changed: int = 0
    same: int = 0
    repeated: int = 0
    unkeyed: int = 0


def previous(task: Task) -> Task | None:
    """The latest ended task before this one, of the same spider with equal arguments."""
    if task.arguments_hash is None:
        return None
    same = Task.objects.defer("seeds").filter(arguments_hash=task.arguments_hash, pk__lt=task.pk)
    return same.exclude(state__in=Task.ACTIVE).order_by("-pk").first()


def possible_keys(columns: Sequence[Column], items: int) -> list[str]:
    """Fields that every item has, each with another value; the most likely key first."""
    unique = [
        column.name
        for column in columns
        if not column.empty
        and column.distinct == items
        and set(column.types) <= {"text", "integer"}
    ]

    def place(name: str) -> int:
        return PREFERRED.index(name.lower()) if name.lower() in PREFERRED else len(PREFERRED)

    return sorted(unique, key=place)


def compare(
    old: Iterable[dict[str, Any]], new: Iterable[dict[str, Any]], key: str, counts: Counts
) -> Iterator[Change]:
    """Yields the changes from ``old`` to ``new``. The old items are kept in a file while it runs,
    so that runs of any size fit."""
    with closing(sqlite3.connect("")) as kept:  # a temporary file, removed when it is closed
        kept.execute("CREATE TABLE old (key TEXT PRIMARY KEY, data TEXT) WITHOUT ROWID")
        for data in old:
            if (name := _key(data, key, counts)) is None:
                continue
            row = (name, json.dumps(data))
            if not kept.execute("INSERT OR IGNORE INTO old VALUES (?, ?)", row).rowcount:
                counts.repeated += 1
        kept.execute("CREATE TABLE new (key TEXT PRIMARY KEY) WITHOUT ROWID")
        for data in new:
            if (name := _key(data, key, counts)) is None:
                continue
            if not kept.execute("INSERT OR IGNORE INTO new VALUES (?)", (name,)).rowcount:
                counts.repeated += 1
                continue
            before = kept.execute("SELECT data FROM old WHERE key = ?", (name,)).fetchone()
            if before is None:
                counts.added += 1
                yield Change("added", data[key], {n: (None, v) for n, v in data.items()})
            elif differing := _differing(json.loads(before[0]), data):
                counts.changed += 1
                yield Change("changed", data[key], differing)
            else:
                counts.same += 1
        gone = kept.execute("SELECT data FROM old WHERE key NOT IN (SELECT key FROM new)")
        for (text,) in gone:
            data = json.loads(text)
            counts.gone += 1
            yield Change("gone", data[key], {n: (v, None) for n, v in data.items()})


def _key(data: dict[str, Any], key: str, counts: Counts) -> str | None:
    value = data.get(key)
    if is_empty(value):
        counts.unkeyed += 1
        return None
    return json.dumps(value, sort_keys=True)


def _differing(old: dict[str, Any], new: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    names = dict.fromkeys([*old, *new])
    return {
        name: (old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)
    }


def as_items(changes: Iterable[Change]) -> Iterator[dict[str, Any]]:
    """One row for each field that differs, for a file."""
    for change in changes:
        for name, (old, new) in change.fields.items():
            yield {"change": change.kind, "key": change.key, "field": name, "old": old, "new": new}


class Compared(NamedTuple):
    """``keys``: fields that can be the key."""

    old: Task
    key: str
    keys: list[str]
    counts: Counts
    changes: list[Change]


def compared(task: Task, other: int | None, key: str) -> Compared:
    """The comparison of two runs that have MAX_ITEMS items at most. ``other``: the run before by
    default; ``key``: chosen by default. Raises BadComparison."""
    old = other_run(task, other)
    windows = [latest(number, most=MAX_ITEMS) for number in (old.pk, task.pk)]
    if not all(window.is_all for window in windows):
        raise BadComparison(
            f"task {task.pk} or {old.pk} has more than {MAX_ITEMS:,} items, or very large ones; "
            "download the comparison, which has no limit"
        )
    before, now = ([row.data for row in window.rows[::-1]] for window in windows)
    keys = keys_of(windows[0].rows, windows[1].rows)
    chosen = _chosen(key, keys)
    counts = Counts()
    return Compared(old, chosen, keys, counts, [*compare(before, now, chosen, counts)])


def whole(task: Task, other: int | None, key: str) -> Callable[[], Iterator[list[dict[str, Any]]]]:
    """The comparison of runs of any size, in chunks, as ``as_items`` writes it. The key is chosen
    by their latest items. Raises BadComparison."""
    old = other_run(task, other)
    chosen = _chosen(key, keys_of(latest(old.pk).rows, latest(task.pk).rows))
    before, now = Items(old), Items(task)

    def chunks() -> Iterator[list[dict[str, Any]]]:
        old_items, new_items = (chain.from_iterable(side.chunks()) for side in (before, now))
        rows = as_items(compare(old_items, new_items, chosen, Counts()))
        while some := [*islice(rows, CHUNK)]:
            yield some

    return chunks


def other_run(task: Task, other: int | None) -> Task:
    """Raises BadComparison."""
    if other is None:
        found = previous(task)
        if found is None:
            raise BadComparison(
                f"no run of {task.spider} with the same arguments ended before task {task.pk}; "
                "choose a task to compare with"
            )
        return found
    found = Task.objects.defer("seeds").filter(pk=other, spider=task.spider).first()
    if found is None or found.pk == task.pk:
        raise BadComparison(f"task {other} is no other task of the spider {task.spider}")
    return found


def keys_of(old: Sequence[ItemRow], new: Sequence[ItemRow]) -> list[str]:
    """Fields that can be the key of both runs, the most likely first."""
    sides = [possible_keys(columns(rows), len(rows)) for rows in (old, new) if rows]
    return [name for name in (sides[-1] if sides else []) if all(name in side for side in sides)]


def _chosen(key: str, keys: Sequence[str]) -> str:
    if key:
        return key
    if not keys:
        raise BadComparison("no field has another value in every item of both runs; choose the key")
    return keys[0]
