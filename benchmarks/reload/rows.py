"""Rows: when each page was parsed, and with which change of the code."""

from __future__ import annotations

import json
import sqlite3
from bisect import bisect_left
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

QUERY = "SELECT id, data, version FROM crawlservice_item WHERE id > ? ORDER BY id"


class Row(NamedTuple):
    at: float  # time.monotonic() at which the page was parsed
    change: int  # number of the last change in the code that parsed it
    version: str  # the framework's label of that code; "" if it has none


class Database:
    """The items in a node's SQLite file, read while the node writes."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._last = 0
        self._connection: sqlite3.Connection | None = None

    def read(self) -> list[Row]:
        """The rows added since the last call."""
        if self._connection is None:
            if not self._file.exists():
                return []
            self._connection = sqlite3.connect(f"{self._file.as_uri()}?mode=ro", uri=True)
        rows = []
        try:
            found = self._connection.execute(QUERY, (self._last,)).fetchall()
        except sqlite3.OperationalError:  # the tables are not made yet
            return []
        for self._last, text, version in found:
            data = json.loads(text)
            rows.append(Row(data["at"], data["change"], version))
        return rows

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


class Parses:
    """All pages of a run, in order of time."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows = sorted(rows)
        self._times = [row.at for row in self._rows]
        self._first: dict[int, float] = {}
        self._last: dict[int, float] = {}
        for row in self._rows:
            self._first.setdefault(row.change, row.at)
            self._last[row.change] = row.at

    def __len__(self) -> int:
        return len(self._rows)

    def first(self, change: int) -> float | None:
        """When the first page was parsed by code with this change, or one made later."""
        return min((at for number, at in self._first.items() if number >= change), default=None)

    def last_before(self, change: int) -> float | None:
        """When the last page was parsed by code without this change."""
        return max((at for number, at in self._last.items() if number < change), default=None)

    def count(self, start: float, end: float) -> int:
        """Pages parsed between two times."""
        return bisect_left(self._times, end) - bisect_left(self._times, start)

    def rate(self, start: float, end: float) -> float:
        """Pages per second between two times."""
        return self.count(start, end) / (end - start)

    def gap(self, start: float, end: float) -> float:
        """The longest time, in seconds, between two pages, one of them between these times."""
        low, high = bisect_left(self._times, start), bisect_left(self._times, end)
        near = self._times[max(0, low - 1) : high + 1]
        return max((b - a for a, b in pairwise(near)), default=end - start)

    def mixed(self) -> int:
        """Labels of code versions under which rows of more than one change are stored."""
        changes: dict[str, set[int]] = {}
        for row in self._rows:
            changes.setdefault(row.version, set()).add(row.change)
        return sum(len(numbers) > 1 for numbers in changes.values())
