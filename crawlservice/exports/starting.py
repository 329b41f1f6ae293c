"""Starting: from which row on an export exports."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any, NamedTuple

from django.db.models import QuerySet

from crawlservice.connections import clock
from crawlservice.exports.errors import BadExport
from crawlservice.ledger.commit_order import CommitOrder
from crawlservice.models import Export, Item, Page
from crawlservice.tasks.results.task_rows import all_before

FORM = "write beginning, now, a date such as 2026-11-01 or 2026-11-01T06:00Z, or a row number"
LOCK_SECONDS = 1.0  # seconds to wait for transactions that write rows


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
        return Start(_now(what))
    if text.isascii() and text.isdecimal() and len(text) < 19:
        return Start(max(0, int(text) - 1))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise BadExport("begin", f"{begin!r} is no point to begin at: {FORM}") from None
    try:
        moment = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
        return Start(all_before(rows_of(what).model, moment), moment)
    except OverflowError:
        raise BadExport("begin", f"{begin!r} is too far away: {FORM}") from None


def _now(what: str) -> int:
    """The number up to which all rows are there. Numbers are given out before rows are committed,
    so those of open transactions are waited for. If one is open for long, rows of the last minutes
    are exported, too: none is lost."""
    model = rows_of(what).model
    order, until = CommitOrder(model), time.monotonic() + LOCK_SECONDS
    while not (settled := order.settled()) and rows_of(what).exists():
        if time.monotonic() > until:
            return all_before(model, clock.now())
        time.sleep(LOCK_SECONDS / 20)
    return settled
