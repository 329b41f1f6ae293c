"""Rows by time. There is no index on time; row numbers rise with it, so a number is found by
looking at a few single rows."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Model


def last_before(model: type[Model], moment: datetime) -> int:
    """The number of the last row created before the moment; 0 if there is none."""
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
