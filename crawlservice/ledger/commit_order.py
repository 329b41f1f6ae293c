"""Commit order: how far the items can be read so that none appears behind the reader later.

Numbers are given out before rows are committed: while a transaction is open, rows with higher
numbers may be visible and its own are not. Readers with a cursor over Item.id must not pass it."""

from __future__ import annotations

from typing import NamedTuple

from django.db import connection
from django.db.models import Max

from crawlservice.models import Item, Page

LAST = "SELECT pg_get_serial_sequence(%s, 'id')"
# Takes a number itself. The upper end of a snapshot is no such mark: it follows the transaction
# that ended last, so running ones may have this number or a higher one.
NEXT_TRANSACTION = "SELECT pg_current_xact_id()::text::bigint"
OLDEST_TRANSACTION = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint"


class Mark(NamedTuple):
    """``number``: the highest one given out at a moment. ``transaction``: the first that began to
    write after it."""

    number: int
    transaction: int


class CommitOrder:
    """Finds the highest number up to which all items are visible that ever will be. One object
    for each reader; it keeps a mark between calls."""

    _model: type[Item | Page] = Item

    def __init__(self) -> None:
        self._settled = 0
        self._mark: Mark | None = None

    def settled(self) -> int:
        """Returns the number. Call it outside of a transaction, before each read. It may lag behind
        for as long as a transaction that writes anything in this PostgreSQL server is open. Raises
        django.db.Error."""
        if connection.vendor != "postgresql":  # SQLite has one writer at a time
            return self._model.objects.aggregate(last=Max("id"))["last"] or 0
        if self._mark is None:
            self._mark = self._take()
        # A transaction has written its pages before it takes numbers for their items, so it was
        # known to the server as a writer by then.
        if self._mark and _value(OLDEST_TRANSACTION) >= self._mark.transaction:
            self._settled, self._mark = self._mark.number, self._take()
        return self._settled

    def _take(self) -> Mark | None:
        """The order matters: what had a number by the first query had begun by the second."""
        return Mark(self._last_number(), _value(NEXT_TRANSACTION))

    def _last_number(self) -> int:
        with connection.cursor() as cursor:
            cursor.execute(LAST, [self._model._meta.db_table])
            (sequence,) = cursor.fetchone()
            cursor.execute(f"SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {sequence}")
            (number,) = cursor.fetchone()
        return int(number)


class PageOrder(CommitOrder):
    """The same of pages, but for one case: a transaction takes the number of its first page a
    moment before the server knows it as a writer. Should that moment last from one call to the
    next, a second or so, its pages may appear behind the reader."""

    _model = Page

    def __init__(self) -> None:
        super().__init__()
        self._number: int | None = None

    def _take(self) -> Mark | None:
        number, self._number = self._number, self._last_number()
        return None if number is None else Mark(number, _value(NEXT_TRANSACTION))


def _value(query: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(query)
        (value,) = cursor.fetchone()
    return int(value)
