"""Starts: the parts of what a task's start has yielded while it still ran."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from django.db import transaction

from crawlframe.ledger import StartPart
from crawlframe.request import pack_admissions, root_admission, unpack_admissions
from crawlservice.models import Page
from crawlservice.models import StartPart as Row

PARTS_PER_STEP = 10  # parts read at a time


def last(task: int) -> StartPart | None:
    """The last recorded part of a task. Raises django.db.Error."""
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


@transaction.atomic
def add(part: StartPart) -> bool:
    """Writes a part. Returns False if another run of the start has written one with this number, or
    has ended. Raises django.db.Error."""
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
