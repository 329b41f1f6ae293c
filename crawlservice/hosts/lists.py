"""Lists of hosts: which ones, by the beginning of the name and by what is known of them."""

from __future__ import annotations

from enum import StrEnum

from django.db.models import Q, QuerySet

from crawlservice.models import HELD, ORDERED, Host


class Which(StrEnum):
    """A choice of hosts; each has an index."""

    HELD = "held"
    PAUSED = "paused"
    ORDERED = "ordered"
    ERRORS = "errors"


CONDITIONS = {
    Which.HELD: HELD,
    Which.PAUSED: Q(paused=True),
    Which.ORDERED: ORDERED,
    Which.ERRORS: Q(errors__gt=0),
}


def chosen(which: Which | None = None, beginning: str = "") -> QuerySet[Host]:
    """The hosts of this kind whose names begin so."""
    rows = Host.objects.all()
    if which is not None:
        rows = rows.filter(CONDITIONS[which])
    return named(rows, beginning)


def named(rows: QuerySet[Host], beginning: str) -> QuerySet[Host]:
    """Those of the rows whose names begin so; names are in lower case."""
    text = beginning.strip().lower()
    return rows.filter(name__startswith=text) if text else rows
