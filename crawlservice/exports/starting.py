"""Starting: from which row on an export exports."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import Max, Min, QuerySet

from crawlservice.exports.definition import BadExport
from crawlservice.models import Export, Item, Page

FORM = "write beginning, now, a date such as 2026-11-01 or 2026-11-01T06:00Z, or a row number"
# Rows get their time when their statement begins and may be numbered later than others.
DISORDER = timedelta(minutes=10)


class Start(NamedTuple):
    """The rows after number ``position`` that were stored at ``since`` or later, if it is set."""

    position: int = 0
    since: datetime | None = None


def rows_of(what: str) -> QuerySet[Any]:
    """All rows that an export of items or pages may have."""
    return Page.objects.all() if what == Export.What.PAGES else Item.objects.all()


def start_of(what: str, begin: str) -> Start:
    """``begin``: see FORM. Raises BadExport and django.db.Error."""
    text = begin.strip()
    if text in ("", "beginning"):
        return Start()
    if text == "now":
        return Start(rows_of(what).aggregate(last=Max("pk"))["last"] or 0)
    if text.isascii() and text.isdecimal() and len(text) < 19:
        return Start(max(0, int(text) - 1))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise BadExport("begin", f"{begin!r} is no point to begin at: {FORM}") from None
    try:
        moment = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
        return Start(_before(what, moment - DISORDER), moment)
    except OverflowError:
        raise BadExport("begin", f"{begin!r} is too far away: {FORM}") from None


def _before(what: str, moment: datetime) -> int:
    """The number of a row that was stored before then, as late as possible; 0 if there is none.
    Times have no index, but they rise with the numbers."""
    rows = rows_of(what)
    ends = rows.aggregate(first=Min("pk"), last=Max("pk"))
    if ends["first"] is None:
        return 0
    low, high = ends["first"] - 1, ends["last"]
    while low < high:  # all rows up to low are older; those after high are not
        middle = (low + high + 1) // 2
        columns = ("pk", "created_at")
        row = rows.filter(pk__lte=middle, pk__gt=low).order_by("-pk").values_list(*columns).first()
        if row is None or row[1] < moment:
            low = middle
        else:
            high = row[0] - 1
    return int(low)
