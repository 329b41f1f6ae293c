"""Rows of one task in the order of their numbers, by the index on task and number.

For ``task = 7 ORDER BY id``, PostgreSQL may walk along the primary key, if many rows are of that
task, and pass millions of newer rows before it meets the first. A range over one number means the
same, and can only use the index that has both."""

from __future__ import annotations

from typing import Any, TypeVar

from django.db.models import BigIntegerField, F, Func, Model, QuerySet, Value
from django.db.models.lookups import GreaterThan, LessThan

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
    """The same for another column with a number, of which an index has it and the row's number."""
    # Without the bound that a place implies: PostgreSQL may begin at the bound, and pass all rows
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
