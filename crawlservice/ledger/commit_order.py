"""Commit order: how far the items can be read so that none appears behind the reader later.

Numbers are given out before rows are committed: while a transaction is open, rows with higher
numbers may be visible and its own are not. Readers with a cursor over Item.id must not pass it."""

from __future__ import annotations

from typing import NamedTuple

from django.db import connection
from django.db.models import Max

from crawlservice.models import Item

TABLE = Item._meta.db_table

LAST = f"SELECT pg_get_serial_sequence('{TABLE}', 'id')"
NEXT_TRANSACTION = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
OLDEST_TRANSACTION = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint"


class Mark(NamedTuple):
    """``number``: the highest one given out at a moment. ``transaction``: the first that began to
    write after it."""

    number: int
    transaction: int


class CommitOrder:
    """Finds the highest number up to which all items are visible that ever will be. One object
    for each reader; it keeps a mark between calls."""

    def __init__(self) -> None:
        self._settled = 0
        self._mark: Mark | None = None

    def settled(self) -> int:
        """Returns the number. Call it outside of a transaction, before each read. It may lag behind
        for as long as a transaction that writes anything in this PostgreSQL server is open. Raises
        django.db.Error."""
        if connection.vendor != "postgresql":  # SQLite has one writer at a time
            return Item.objects.aggregate(last=Max("id"))["last"] or 0
        if self._mark is None:
            self._mark = self._take()
        # A transaction has written its pages before it takes numbers for their items, so it was
        # known to the server as a writer by then.
        if _value(OLDEST_TRANSACTION) >= self._mark.transaction:
            self._settled, self._mark = self._mark.number, None
        return self._settled

    @staticmethod
    def _take() -> Mark:
        """The order matters: what had a number by the first query had begun by the second."""
        with connection.cursor() as cursor:
            cursor.execute(LAST)
            (sequence,) = cursor.fetchone()
            cursor.execute(f"SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {sequence}")
            (number,) = cursor.fetchone()
        return Mark(number, _value(NEXT_TRANSACTION))


def _value(query: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(query)
        (value,) = cursor.fetchone()
    return int(value)
