"""Cursor: how far an export is, in the database. Each step names what it leads on from, so of two
nodes that take it only one does."""

from __future__ import annotations

from datetime import timedelta

from django.db.models import F
from django.db.models.functions import Coalesce, Now

from crawlservice.exports.batch import ExportBatch
from crawlservice.models import Export
from crawlservice.outbox.backoff import MAX_PROBLEM, Backoff
from crawlservice.tasks.results.column_types import Kinds

RETRIES = Backoff((5, 15, 60, 300, 900, 1800))


def kinds_of(export: Export) -> Kinds:
    """The columns that earlier batches had."""
    return dict(export.columns)


def plan(export: Export, batch: ExportBatch) -> bool:
    """Decides which rows the next batch has, for every attempt to send it. Returns False if the
    export has moved or changed meanwhile. Raises django.db.Error."""
    rows = Export.objects.filter(
        pk=export.pk, run=export.run, position=export.position, planned=None,
        changed=export.changed, paused=False,
    )  # fmt: skip
    columns = {"columns": [*batch.kinds.items()]} if batch.kinds else {}
    return bool(rows.update(planned=batch.last, **columns))


def advance(export: Export, reached: int, batch: ExportBatch, place: str) -> bool:
    """Records that the planned batch was sent to ``place``. Returns False if another node did, or
    the export was started again. Raises django.db.Error."""
    rows = Export.objects.filter(
        pk=export.pk, run=export.run, position=export.position, planned=reached
    )
    return bool(
        rows.update(
            position=reached, planned=None, rows=F("rows") + batch.rows,
            batches=F("batches") + int(batch.rows > 0), last_batch=place, last_at=Now(),
            attempts=0, next_at=None, problem="", problem_since=None,
        )
    )  # fmt: skip


def skip(export: Export, reached: int) -> None:
    """Records that there is nothing to export up to there. Raises django.db.Error."""
    Export.objects.filter(
        pk=export.pk, run=export.run, position=export.position, planned=None,
        changed=export.changed,
    ).update(position=reached)  # fmt: skip


def fail(export: Export, problem: str) -> None:
    """Records why a batch could not be sent; it is tried again after a pause. Raises
    django.db.Error."""
    pause = RETRIES.pause(export.attempts + 1)
    assert pause is not None
    rows = Export.objects.filter(pk=export.pk, run=export.run, position=export.position)
    rows.filter(attempts=export.attempts).update(
        attempts=F("attempts") + 1,
        next_at=Now() + timedelta(seconds=pause),
        problem=problem[:MAX_PROBLEM],
        problem_since=Coalesce("problem_since", Now()),
    )
