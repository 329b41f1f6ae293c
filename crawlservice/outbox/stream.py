"""Stream: rows that go to one target in batches, in their order.

A batch is fenced where its position is kept: its sender names the position that it leads on from
(exports), or locks the target (rows of other databases). So it needs no lease: a new leader goes on
at once, and of two senders one moves the position."""

from __future__ import annotations

import logging
from abc import abstractmethod

from django.db import Error as DatabaseError

from crawlframe.errors import CrawlframeError
from crawlframe.run.ledger import LedgerAway
from crawlservice.chores.threads import Work

log = logging.getLogger(__name__)

IDLE_SECONDS = 1.0  # seconds between two looks when there is nothing to send


class OutboxThread(Work):
    """The work of one thread. ``name`` stands in messages."""

    name: str

    @abstractmethod
    def send_next(self) -> float | None:
        """Reads, and sends a batch if one is due. Returns the seconds after which to call it again,
        0 if there may be more at once, None if the stream has ended. Raises django.db.Error of the
        service's database, LedgerAway, and whatever the target raises."""

    @abstractmethod
    def settle_failure(self, error: Exception) -> tuple[str, float]:
        """Records why the target failed. Returns that as text without secrets, and the seconds
        after which to try again. Raises django.db.Error."""

    def step(self) -> float | None:
        """Does what ``send_next`` does, and records failures of the target. Raises django.db.Error
        of the service's database and LedgerAway: a batch may have been sent, and is sent again."""
        try:
            return self.send_next()
        except (DatabaseError, LedgerAway):
            self.close()
            raise
        except Exception as error:
            self.close()
            log.debug("%s", self.name, exc_info=not isinstance(error, CrawlframeError))
            problem, pause = self.settle_failure(error)
            log.warning("%s waits: %s", self.name, problem)
            return pause
