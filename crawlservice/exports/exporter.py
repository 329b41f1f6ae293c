"""Exporter: advances one export, step by step. The rows of a batch are decided in the database
before it is sent, so every attempt, of whatever node, sends the same rows.

Cursor: the position of an export, in the database. Each step names the position before it, so of
two nodes that take a step only one succeeds.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from contextlib import closing
from datetime import timedelta
from itertools import islice
from threading import Thread

from django.db.models import F
from django.db.models.functions import Coalesce, Now

from crawlframe.base import faults
from crawlframe.conf import Settings
from crawlframe.errors import CrawlframeError
from crawlservice.connections import clock
from crawlservice.exports.changes import secrets_of, target_of
from crawlservice.exports.source import parts, rows_of
from crawlservice.exports.target import BatchName, ExportBatch, Target, Writer
from crawlservice.ledger.commit_order import CommitOrder
from crawlservice.models import Export, Installation
from crawlservice.outbox.outbox import MAX_PROBLEM, Backoff
from crawlservice.outbox.sender import IDLE_SECONDS, OutboxThread

RETRIES = Backoff((5, 15, 60, 300, 900, 1800))
log = logging.getLogger(__name__)
PARTS = 20  # parts read in one step
TRIAL = 15  # seconds for a test of a target
MAX_SKIPPED = 10_000  # numbers without a row for it, after which that is recorded


class Exporter(OutboxThread):
    """The stream of one export."""

    def __init__(self, pk: int, node: Settings) -> None:
        self.name = f"export {pk}"
        self._pk, self._node = pk, node
        self._export = Export()
        self._order: CommitOrder | None = None
        self._writer: Writer | None = None
        self._batch: ExportBatch | None = None
        self._reached = 0  # the last number that was looked at for the batch
        self._config_version: tuple[int, ...] = ()  # that batch and writer were made for
        self._secrets: tuple[str, ...] = ()

    def send_next(self) -> float | None:
        export = Export.objects.filter(pk=self._pk).first()
        if export is None or not export.active:
            self.close()
            return None
        self._export, self.name = export, f"export {export}"
        if export.next_at is not None and export.next_at > clock.now():
            return IDLE_SECONDS
        # It reads again if the export was changed, started again, or carried on by another node.
        if self._writer is None or self._config_version[:1] != (export.changed,):
            self.close()
        version = (export.changed, export.run, export.position, export.planned or 0)
        if version != self._config_version and self._batch is not None:
            self._batch.close()
            self._batch = None
        self._config_version = version
        return 0.0 if self._go_on(export) else IDLE_SECONDS

    def settle_failure(self, error: Exception) -> tuple[str, float]:
        problem = redacted(error, self._secrets)
        fail(self._export, problem)
        return problem, IDLE_SECONDS  # the row has the time of the next attempt

    def close(self) -> None:
        """Forgets the rows that were read, and closes the target."""
        if self._batch is not None:
            self._batch.close()
        if self._writer is not None:
            self._writer.close()
        self._batch = self._writer = None
        self._config_version = ()

    def _go_on(self, export: Export) -> bool:
        if self._writer is None:
            target = target_of(export)
            self._secrets = tuple(secrets_of(target))
            self._writer = open_writer(target, self._node)
        more = self._read(export, self._writer)
        batch = self._batch
        if batch is None:
            return more
        if export.planned is None:
            if not batch.rows:
                if self._reached - export.position >= MAX_SKIPPED:
                    skip(export, self._reached)
                return more
            limits = self._writer.limits
            # While there is more, only a full one is: behind schedule, files are large, not many.
            if not (batch.is_full(limits) if more else batch.is_due(limits, clock.now())):
                return more
            faults.at("export.plan.before")
            if not plan(export, batch):
                return True
            faults.at("export.plan.after")
            export.planned = batch.last
        self._send(export, batch)
        return True

    def _read(self, export: Export, writer: Writer) -> bool:
        """Reads on. Returns whether there may be more."""
        if self._batch is None:
            self._batch = ExportBatch(dict(export.columns), writer.limits.columns)
            self._reached = export.position
        batch = self._batch
        if export.planned is not None:
            for part in parts(export, self._reached, export.planned):
                for row in part.rows:
                    batch.add(row)
                self._reached = part.reached
            return True
        if batch.is_full(writer.limits):
            return True
        if self._order is None:
            self._order = CommitOrder(rows_of(export.what).model)
        settled = self._order.settled()
        for part in islice(parts(export, self._reached, settled), PARTS):
            for row in part.rows:
                batch.add(row)
                if batch.is_full(writer.limits):
                    self._reached = row.number
                    return True
            self._reached = part.reached
        return self._reached < settled

    def _send(self, export: Export, batch: ExportBatch) -> None:
        assert export.planned is not None
        assert self._writer is not None
        place = export.last_batch
        if batch.rows:  # otherwise they were deleted meanwhile
            # Read from the database again: a retry may have deleted rows since the last attempt.
            covers = export.position + 1, export.planned
            name = BatchName(export.name, export.pk, export.run, *covers)
            began = time.monotonic()
            place = self._writer.send(name, batch)
            log.debug("export %s: %s in %.2f s", export, place, time.monotonic() - began)
        faults.at("export.cursor.before")
        advance(export, export.planned, batch, place)
        faults.at("export.cursor.after")
        batch.close()
        self._batch = None


def redacted(error: Exception, secrets: Iterable[str]) -> str:
    """The message in one line, without the secrets."""
    text = " ".join(str(error).split()) or type(error).__name__
    if not isinstance(error, CrawlframeError):
        text = f"{type(error).__name__}: {text}"
    for secret in secrets:
        text = text.replace(secret, "********")
    return text


def tried(export: Export, node: Settings) -> str:
    """Opens the target and tests it from this machine, for at most TRIAL seconds. Returns why it
    cannot be reached and written, or ""."""
    problems: list[str] = []
    secrets: tuple[str, ...] = ()

    def test() -> None:
        try:
            with closing(ExportBatch({})) as empty:
                writer.test(BatchName(export.name, export.pk, 0, 0, 0), empty)
            problems.append("")
        except Exception as error:
            problems.append(redacted(error, secrets))
        finally:
            writer.close()

    try:
        target = target_of(export)
        secrets = tuple(secrets_of(target))
        writer = open_writer(target, node)
    except Exception as error:
        return redacted(error, secrets)
    thread = Thread(target=test, daemon=True)
    thread.start()
    thread.join(TRIAL)
    return problems[0] if problems else f"no answer within {TRIAL} s"


def open_writer(target: Target, node: Settings) -> Writer:
    """Raises TargetError."""
    return target.open(node, str(Installation.objects.get_or_create(pk=1)[0].uuid))


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
