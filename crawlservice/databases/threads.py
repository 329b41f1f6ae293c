"""Threads: the leading steward's deliveries to other databases, a thread for each, so that one that
hangs delays neither the steward nor the others."""

from __future__ import annotations

import logging
import time

from django.db import Error as DatabaseError
from django.db import connection

from crawlframe.ledger import LedgerAway
from crawlservice.databases.delivery import Outbox, databases
from crawlservice.webhooks.sender_thread import SenderThread

log = logging.getLogger(__name__)


class OutboxThread(SenderThread):
    """The thread of one database."""

    def __init__(self, alias: str) -> None:
        super().__init__()
        self.sends = f"rows for the database {alias}"  # type: ignore[misc]
        self._alias = alias

    def _work(self) -> None:
        outbox = Outbox(self._alias)
        try:
            while self._wanted:
                time.sleep(self._step(outbox))
        finally:
            outbox.close()

    def _step(self, outbox: Outbox) -> float:
        try:
            return outbox.step()
        except (LedgerAway, DatabaseError) as error:  # what was saved is saved again
            log.warning("%s wait: %s", self.sends, " ".join(str(error).split()))
            connection.close()
            return 1.0


class OutboxThreads:
    """Those of one steward. Call ``keep_going`` in every round."""

    def __init__(self) -> None:
        self._threads: dict[str, OutboxThread] = {}

    def keep_going(self) -> None:
        """Starts a thread for each database for which rows wait. One that has none left ends after
        a while. Raises django.db.Error."""
        for alias in databases():
            thread = self._threads.get(alias) or OutboxThread(alias)
            self._threads[alias] = thread
            thread.keep_going()

    def stop(self) -> None:
        """Ends them after their current steps. The next leader goes on from there."""
        for thread in self._threads.values():
            thread.stop()
        self._threads.clear()
