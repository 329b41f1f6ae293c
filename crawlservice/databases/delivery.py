"""Delivery: the outbox of one other database, carried on batch by batch, in the order in which
pages were stored.

A batch is read, saved and committed under a lock of that database, and deleted from the outbox
afterwards. So whoever dies leaves what is saved again later, to the same effect, since every row is
an Upsert; and a sender that was held up, while another one leads, finds nothing left to save and
cannot put old rows over new ones."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from zlib import crc32

from django.db import Error as DatabaseError
from django.db import connections, transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Now

from crawlframe import faults
from crawlframe.ledger import TablesChanged
from crawlservice.ledger import model_rows, refused_rows
from crawlservice.ledger.outgoing_rows import unpack
from crawlservice.ledger.refused_rows import RowRefused
from crawlservice.ledger.upserts import Row
from crawlservice.models import RowDelivery

PAGES = 500  # of a batch
IDLE = 1.0  # seconds between two looks when nothing waits
PAUSES = (1, 2, 5, 15, 60)  # seconds after the first, second, … failure; then the last
PROBLEM = 2000  # characters that are kept
LOCK = 0x637261776C << 24  # the PostgreSQL advisory locks of senders begin there

log = logging.getLogger(__name__)


class Outbox:
    """Of one database. ``step`` is called again and again, by one thread."""

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._failures = 0

    def step(self) -> float:
        """Delivers a batch. Returns the seconds after which to call it again; 0: there may be more
        at once. Raises django.db.Error of the service's database; the failures of the other one are
        recorded with the first page that waits."""
        if not _waiting(self._alias).exists():
            return IDLE
        if self._alias not in connections.settings:
            return self._fail(
                f"the leading node knows no database {self._alias}; name it in "
                "CRAWLFRAME_DATABASES there"
            )
        try:
            batch, refused = self._save_batch()
        except (TablesChanged, DatabaseError) as error:
            connections[self._alias].close()
            return self._fail(" ".join(str(error).split()))
        self._failures = 0
        self._settle(batch, refused)
        return 0.0 if len(batch) == PAGES else IDLE

    def close(self) -> None:
        if self._alias in connections.settings:
            connections[self._alias].close()

    def _fail(self, problem: str) -> float:
        pause = PAUSES[min(self._failures, len(PAUSES) - 1)]
        self._failures += 1
        log.warning("rows for the database %s wait: %s", self._alias, problem)
        first = _waiting(self._alias).values_list("pk", flat=True)[:1]
        _rows(*first).update(attempts=F("attempts") + 1, tried_at=Now(), problem=problem[:PROBLEM])
        return float(pause)

    def _save_batch(self) -> tuple[list[RowDelivery], dict[int, str]]:
        """Returns the pages, and why some of them were refused, by their ids."""
        with transaction.atomic(using=self._alias):
            self._lock()
            batch = [*_waiting(self._alias)[:PAGES]]
            refused = self._save(batch)
            faults.at("rows.delivery.before")
        faults.at("rows.delivery.after")
        return batch, refused

    def _settle(self, batch: list[RowDelivery], refused: dict[int, str]) -> None:
        for delivery in batch:
            reason = refused.get(delivery.pk)
            if reason is not None:
                log.warning("page %s: %s: %s", delivery.page, self._alias, reason)
                _rows(delivery.pk).update(
                    refused=True, attempts=F("attempts") + 1, tried_at=Now(),
                    problem=reason[:PROBLEM],
                )  # fmt: skip
        _rows(*{delivery.pk for delivery in batch} - refused.keys()).delete()

    def _lock(self) -> None:
        """Until the transaction ends. SQLite's is the lock itself."""
        if connections[self._alias].vendor == "postgresql":
            with connections[self._alias].cursor() as cursor:
                key = LOCK | crc32(self._alias.encode()) & 0xFFFFFF
                cursor.execute("SELECT pg_advisory_xact_lock(%s)", [key])

    def _save(self, batch: list[RowDelivery]) -> dict[int, str]:
        """Saves these pages, together if possible. Returns why some were refused, by their ids."""
        try:
            self._save_together(batch)
        except RowRefused as error:
            if len(batch) == 1:
                return {batch[0].pk: str(error)}
            half = len(batch) // 2
            return self._save(batch[:half]) | self._save(batch[half:])
        return {}

    def _save_together(self, batch: Iterable[RowDelivery]) -> None:
        rows = [row for delivery in batch for row in unpack(delivery)]
        try:
            with transaction.atomic(using=self._alias):
                model_rows.save_rows(rows)
        except (RowRefused, DatabaseError):
            _check_tables(rows)
            raise


def _check_tables(rows: list[Row]) -> None:
    """Raises TablesChanged if the tables are to blame: the rows wait for their migration."""
    refused_rows.check_tables({row.instance.__class__ for row in rows})


def _waiting(alias: str) -> QuerySet[RowDelivery]:
    return RowDelivery.objects.filter(database=alias, refused=False).order_by("pk")


def _rows(*numbers: int) -> QuerySet[RowDelivery]:
    return RowDelivery.objects.filter(pk__in=numbers)


def databases() -> list[str]:
    """Those for which rows wait. Raises django.db.Error."""
    found: list[str] = []
    waiting = RowDelivery.objects.filter(refused=False).order_by("database", "pk")
    while one := waiting.filter(database__gt=found[-1] if found else "").first():
        found.append(one.database)
    return found


def send_again(delivery: RowDelivery) -> None:
    """Sends a page that was refused again. Rows of its keys that arrived meanwhile are replaced,
    unless their Upsert has ``newest``. Raises django.db.Error."""
    _rows(delivery.pk).update(refused=False, problem="", attempts=0)
