"""Rows by time. There is no index on time; row numbers rise with it, so a number is found by
looking at a few single rows."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import Model

# By how much a row may be younger than one with a higher number: it gets its time when its
# statement begins, and its number later.
DISORDER = timedelta(minutes=10)


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
