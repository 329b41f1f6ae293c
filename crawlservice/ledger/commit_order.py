"""Commit order: how far the rows of a table can be read so that none appears behind the reader
later.

Numbers are given out before rows are committed: while a transaction is open, rows with higher
numbers may be visible and its own are not. Readers with a cursor over the id must not pass it."""

from __future__ import annotations

from typing import NamedTuple

from django.db import connection
from django.db.models import Max, Model

from crawlservice.models import Item

SEQUENCE = "SELECT pg_get_serial_sequence(%s, 'id')"
# A transaction locks the table before it takes a number, and until its rows are visible.
WRITERS = """
SELECT virtualtransaction FROM pg_locks
WHERE locktype = 'relation' AND mode = 'RowExclusiveLock' AND relation = %s::regclass
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


class Mark(NamedTuple):
    """``number``: the highest one given out at a moment. ``writers``: the transactions that were
    writing to the table just after it."""

    number: int
    writers: frozenset[str]


class CommitOrder:
    """Finds the highest number up to which all rows are visible that ever will be. One object for
    each reader; it keeps a mark between calls."""

    def __init__(self, model: type[Model] = Item) -> None:
        """``model``: Item or Page."""
        self._model = model
        self._table = model._meta.db_table
        self._settled = 0
        self._mark: Mark | None = None

    def settled(self) -> int:
        """Returns the number. Call it outside of a transaction, before each read. It may lag behind
        for as long as a transaction that writes to this table is open. Raises django.db.Error."""
        if connection.vendor != "postgresql":  # SQLite has one writer at a time
            return self._model._default_manager.aggregate(last=Max("pk"))["last"] or 0
        if self._mark is not None and self._mark.writers.isdisjoint(self._writers()):
            self._settled, self._mark = self._mark.number, None
        if self._mark is None:
            # The order matters: a transaction that had a number by the first query is a writer in
            # the second, unless its rows are visible.
            with connection.cursor() as cursor:
                cursor.execute(SEQUENCE, [self._table])
                (sequence,) = cursor.fetchone()
                cursor.execute(
                    f"SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {sequence}"
                )
                (number,) = cursor.fetchone()
            self._mark = Mark(number, self._writers())
            if not self._mark.writers:
                self._settled, self._mark = self._mark.number, None
        return self._settled

    def _writers(self) -> frozenset[str]:
        with connection.cursor() as cursor:
            cursor.execute(WRITERS, [self._table])
            return frozenset(name for (name,) in cursor.fetchall())
