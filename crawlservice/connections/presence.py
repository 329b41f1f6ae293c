"""Presence: which chores, or conditions, have rows to work on, found by one query."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any

from django.db import Error as DatabaseError
from django.db import connection
from django.db.models import QuerySet

Rows = Callable[[], Iterable[QuerySet[Any]]]


class Presence:
    """``rows``: querysets by name, of which one at least must have a row; None: none is needed.
    Their SQL is built once, which costs more than to run it: they compare times with Now()."""

    def __init__(self, rows: Mapping[str, Rows | None]) -> None:
        self._rows = {name: some for name, some in rows.items() if some is not None}

    def absent(self) -> set[str]:
        """The names without rows; none of them if the query fails: then each reports the fault."""
        try:
            with connection.cursor() as cursor:
                cursor.execute(*self._query)
                found = cursor.fetchone()
        except DatabaseError:
            connection.close()
            return set()
        return {name for name, some in zip(self._rows, found, strict=True) if not some}

    @cached_property
    def _query(self) -> tuple[str, list[Any]]:
        columns, values = [], list[Any]()
        for rows in self._rows.values():
            some = [one.order_by().values("pk").query.sql_with_params() for one in rows()]
            columns.append(" OR ".join(f"EXISTS({sql})" for sql, _ in some))
            values += [value for _, params in some for value in params]
        return f"SELECT {', '.join(columns)}", values
