"""Starts: requests that a task's start has yielded while it still ran, in parts."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from django.db import OperationalError, transaction

from crawlframe.base import faults
from crawlframe.request.request import pack_admissions, root_admission, unpack_admissions
from crawlframe.revisit.visit import Visit
from crawlframe.run.ledger import StartLedger, StartPart
from crawlframe.run.outcome import Outcome
from crawlservice.ledger.named_errors import with_named_errors
from crawlservice.models import Page
from crawlservice.models import StartPart as Row
from crawlservice.watches.found import record_ahead

PARTS_PER_STEP = 10  # parts read at a time


@with_named_errors
class StartRows(StartLedger):
    """On this thread's connection."""

    def last(self, task: int) -> StartPart | None:
        row = Row.objects.filter(task=task).order_by("-number").first()
        if row is None:
            return None
        return StartPart(
            task,
            root_admission(task).rid,
            row.number,
            row.position,
            bytes(row.mark),
            row.duplicates,
            unpack_admissions(row.follow_ups),
        )

    def add(self, part: StartPart) -> bool:
        faults.at("start.part.before", OperationalError)
        added = _add(part)
        faults.at("start.part.after", OperationalError)
        return added

    def add_found(self, task: int, visit: Visit) -> None:
        outcome = Outcome(b"", task, "", b"", 0, 0)
        outcome.results.visit = visit
        record_ahead([outcome])


@transaction.atomic
def _add(part: StartPart) -> bool:
    if Page.objects.filter(rid=UUID(bytes=part.rid)).exists():
        return False
    packed = pack_admissions(part.follow_ups)
    row = Row(
        task_id=part.task,
        number=part.number,
        position=part.position,
        mark=part.mark,
        duplicates=part.duplicates,
        follow_ups=packed,
    )
    Row.objects.bulk_create([row], ignore_conflicts=True)
    kept = Row.objects.filter(task=part.task, number=part.number).values_list(
        "position", "follow_ups"
    )
    position, follow_ups = kept.get()
    return position == part.position and bytes(follow_ups) == packed


def lists(task: int) -> Iterator[bytes]:
    """The packed admissions of all parts of a task, in order, those being written included."""
    rows = Row.objects.filter(task=task).order_by("number").values_list("number", "follow_ups")
    last = -1
    while some := [*rows.filter(number__gt=last)[:PARTS_PER_STEP]]:
        yield from (bytes(packed) for _, packed in some)
        last = some[-1][0]
