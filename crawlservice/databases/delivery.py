"""Delivery: the stream of rows to one other database, in the order of the numbers of their pages.
Of two pages that are stored at the same moment, either may be the first.

A batch is read, saved and committed under a lock of that database, and deleted from the outbox
afterwards. So rows of a sender that dies are saved again later, to the same effect, since every row
is an Upsert; and a sender that was held up, while another leads, finds nothing left to save and
cannot put old rows over new ones."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import accumulate
from zlib import crc32

from django.db import Error, connections, transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Now

from crawlframe.base import faults
from crawlframe.errors import CrawlframeError
from crawlframe.run.ledger import LedgerAway
from crawlservice.ledger.model_items import model_rows, refused_rows
from crawlservice.ledger.model_items.outgoing_rows import unpack
from crawlservice.ledger.model_items.refused_rows import RowRefused
from crawlservice.models import RowDelivery
from crawlservice.outbox.outbox import MAX_PROBLEM, Backoff
from crawlservice.outbox.sender import IDLE_SECONDS, OutboxThread

PAGES = 500  # of a batch
BYTES = 16 << 20  # of a batch, unless its only page has more
RETRIES = Backoff((1, 2, 5, 15, 60))
MAX_TRIES = 3  # failures after which pages are saved one by one, to find the failing page
LOCK = 0x637261776C << 24  # first PostgreSQL advisory lock of senders

log = logging.getLogger(__name__)


class DatabaseFails(CrawlframeError):
    """Another database does not take a batch now."""


class RowStream(OutboxThread):
    """Rows of one database."""

    def __init__(self, alias: str) -> None:
        self.name = f"delivery of rows to the database {alias}"
        self._alias = alias

    def send_next(self) -> float:
        """Delivers a batch. Raises as ``OutboxThread.send_next`` does, and DatabaseFails."""
        if not _waiting(self._alias).exists():
            return IDLE_SECONDS
        if self._alias not in connections.settings:
            raise DatabaseFails(
                f"the leading node knows no database {self._alias}; name it in "
                "CRAWLFRAME_DATABASES there"
            )
        try:
            batch, refused = self._save_batch()
        except Error as error:
            raise DatabaseFails(refused_rows.reason_of(error)) from error
        self._settle(batch, refused)
        return 0.0 if _waiting(self._alias).exists() else IDLE_SECONDS

    def settle_failure(self, error: Exception) -> tuple[str, float]:
        """Puts off the first page that waits."""
        problem = refused_rows.reason_of(error)
        first = _waiting(self._alias).only("attempts").first()
        if first is None:
            return problem, IDLE_SECONDS
        values = {"tried_at": Now(), "problem": problem[:MAX_PROBLEM]}
        _rows(first.pk).update(attempts=F("attempts") + 1, **values)
        return problem, RETRIES.pause(first.attempts + 1) or IDLE_SECONDS

    def close(self) -> None:
        """Ends the connection."""
        if self._alias in connections.settings:
            connections[self._alias].close()

    def _save_batch(self) -> tuple[list[RowDelivery], dict[int, str]]:
        """Returns the pages, and why some of them were refused, by their ids."""
        with transaction.atomic(using=self._alias):
            self._lock()
            batch = self._read()
            refused = dict(self._save(batch))
            faults.at("rows.delivery.before")
        faults.at("rows.delivery.after")
        return batch, refused

    def _lock(self) -> None:
        """Until the transaction ends. SQLite's is the lock itself. Raises DatabaseFails."""
        if connections[self._alias].vendor == "postgresql":
            with connections[self._alias].cursor() as cursor:
                key = LOCK | crc32(self._alias.encode()) & 0xFFFFFF
                cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [key])
                if not cursor.fetchone()[0]:
                    raise DatabaseFails("another node saves rows there")

    def _read(self) -> list[RowDelivery]:
        """Raises LedgerAway."""
        try:
            sizes = dict(_waiting(self._alias).values_list("pk", "size")[:PAGES])
            fitting = sum(total <= BYTES for total in accumulate(sizes.values()))
            return [*_rows(*[*sizes][: max(fitting, 1)]).order_by("pk")]
        except Error as error:
            raise LedgerAway(refused_rows.reason_of(error)) from error

    def _save(self, batch: list[RowDelivery]) -> Iterator[tuple[int, str]]:
        """Saves these pages, together if possible. Yields refused pages, with the reason."""
        try:
            self._save_together(batch)
        except (RowRefused, Error) as error:
            if not isinstance(error, RowRefused) and not self._is_to_blame():
                raise
            if len(batch) == 1:
                yield batch[0].pk, refused_rows.reason_of(error)
            elif batch:
                half = len(batch) // 2
                yield from self._save(batch[:half])
                yield from self._save(batch[half:])

    def _is_to_blame(self) -> bool:
        """Whether a page may be the cause of failures that are not its refusal: they last, and the
        connection works."""
        first = _waiting(self._alias).only("attempts").first()
        lasts = first is not None and first.attempts >= MAX_TRIES
        return lasts and connections[self._alias].is_usable()

    def _save_together(self, batch: list[RowDelivery]) -> None:
        rows = [row for delivery in batch for row in unpack(delivery)]
        try:
            with transaction.atomic(using=self._alias):
                model_rows.save_rows(rows)
        except (RowRefused, Error):
            if connections[self._alias].is_usable():
                # If the tables are to blame, the rows wait for their migration.
                refused_rows.check_tables({row.instance.__class__ for row in rows})
            raise

    def _settle(self, batch: list[RowDelivery], refused: dict[int, str]) -> None:
        for delivery in batch:
            reason = refused.get(delivery.pk)
            if reason is not None:
                log.warning("page %s: %s: %s", delivery.page, self._alias, reason)
                _rows(delivery.pk).update(
                    refused=True, attempts=F("attempts") + 1, tried_at=Now(),
                    problem=reason[:MAX_PROBLEM],
                )  # fmt: skip
        _rows(*{delivery.pk for delivery in batch} - refused.keys()).delete()


def _waiting(alias: str) -> QuerySet[RowDelivery]:
    return RowDelivery.objects.filter(database=alias, refused=False).order_by("pk")


def _rows(*numbers: int) -> QuerySet[RowDelivery]:
    return RowDelivery.objects.filter(pk__in=numbers)


def databases() -> list[str]:
    """Aliases of databases with waiting rows. Raises django.db.Error."""
    found: list[str] = []
    waiting = RowDelivery.objects.filter(refused=False).order_by("database", "pk")
    names = waiting.values_list("database", flat=True)
    while name := names.filter(database__gt=found[-1] if found else "").first():
        found.append(name)
    return found


def send_again(delivery: RowDelivery) -> None:
    """Sends a page that was refused again. Rows of its keys that arrived meanwhile are replaced,
    unless their Upsert has ``newest``. Raises django.db.Error."""
    _rows(delivery.pk).update(refused=False, problem="", attempts=0)
