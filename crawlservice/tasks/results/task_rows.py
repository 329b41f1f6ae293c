"""Rows of one task in the order of their numbers, by the index on task and number.

For ``task = 7 ORDER BY id``, PostgreSQL may walk along the primary key, if many rows are of that
task, and pass millions of newer rows before it meets the first. A range over one number means the
same, and can only use the index that has both.

Rows by time. There is no index on time; row numbers rise with it, so a number is found by
looking at a few single rows.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, TypeVar

from django.db.models import BigIntegerField, F, Func, Model, QuerySet, Value
from django.db.models.lookups import GreaterThan, LessThan

# Greatest age of a row below one with a higher number: it gets its time when its statement starts,
# and its number later.
DISORDER = timedelta(minutes=10)
M = TypeVar("M", bound=Model)


class _Place(Func):
    """(task, number): compared as a row, it is the start of an index scan."""

    template = "(%(expressions)s)"
    output_field = BigIntegerField()


def of_task(
    rows: QuerySet[M, Any],
    task: int,
    *,
    after: int | None = None,
    before: int | None = None,
    newest: bool = False,
) -> QuerySet[M, Any]:
    """The rows of a task, beyond the given numbers; ``newest``: newest first."""
    return of_one(rows, "task_id", task, after=after, before=before, newest=newest)


def of_one(
    rows: QuerySet[M, Any],
    column: str,
    one: int,
    *,
    after: int | None = None,
    before: int | None = None,
    newest: bool = False,
) -> QuerySet[M, Any]:
    """The same for another numeric column, which has an index with the row's number."""
    # Without the bound that a place implies: PostgreSQL may start at the bound, and pass all rows
    # of the task up to the place.
    if after is None:
        rows = rows.filter(**{f"{column}__gte": one})
    if before is None:
        rows = rows.filter(**{f"{column}__lte": one})
    here = _Place(F(column), F("pk"))
    if after is not None:
        rows = rows.filter(GreaterThan(here, _Place(Value(one), Value(after))))
    if before is not None:
        rows = rows.filter(LessThan(here, _Place(Value(one), Value(before))))
    return rows.order_by(f"-{column}", "-pk") if newest else rows.order_by(column, "pk")


def first_of_latest(rows: QuerySet[Any, Any], task: int, count: int) -> int:
    """The number of the first of a task's newest ``count`` rows; 0 if it has no more."""
    numbers = of_task(rows, task, newest=True).values_list("pk", flat=True)
    return next(iter(numbers[count - 1 : count]), 0)


def all_before(model: type[Model], moment: datetime) -> int:
    """A number up to which all rows were created before the moment; 0 if there is none. So rows
    from the moment on are among those after it. Raises OverflowError and django.db.Error."""
    return _search(model, moment - DISORDER)


def none_before(model: type[Model], moment: datetime) -> int:
    """A number after which no row was created before the moment. Raises as ``all_before``."""
    return _search(model, moment + DISORDER)


def _search(model: type[Model], moment: datetime) -> int:
    """The number of a row created before the moment, as if times rose with the numbers."""
    rows = model._default_manager.order_by("pk").values_list("pk", "created_at")
    newest = rows.last()
    low, high = 0, 0 if newest is None else newest[0]
    while low < high:
        middle = (low + high) // 2
        found = rows.filter(pk__gt=middle)[:1]
        for pk, at in found:
            if at < moment:
                low = pk
            else:
                high = middle
    return low
