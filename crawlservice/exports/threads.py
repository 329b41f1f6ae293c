"""Threads: the leading steward's exports, each in a thread of its own, so that a target that hangs
delays neither the steward nor other exports."""

from __future__ import annotations

import logging
import time

from django.db import Error as DatabaseError
from django.db import connection

from crawlframe.conf import Settings
from crawlservice.exports.exporter import Exporter
from crawlservice.models import Export
from crawlservice.webhooks.sender_thread import SenderThread

log = logging.getLogger(__name__)

IDLE = 1.0  # seconds between two looks when there is nothing to export


class ExportThread(SenderThread):
    """The thread of one export."""

    def __init__(self, export: Export, node: Settings) -> None:
        super().__init__()
        self.sends = f"export {export.name}"  # type: ignore[misc]
        self._pk, self._node = export.pk, node

    def _work(self) -> None:
        exporter = Exporter(self._pk, self._node)
        try:
            while self._wanted:
                if not self._step(exporter):
                    time.sleep(IDLE)
        finally:
            exporter.close()

    def _step(self, exporter: Exporter) -> bool:
        try:
            return exporter.step()
        except DatabaseError as error:  # the batch is sent again
            log.warning("%s waits: %s", self.sends, " ".join(str(error).split()))
            connection.close()
            return False


class ExportThreads:
    """Those of one steward. Call ``keep_going`` in every round."""

    def __init__(self, node: Settings) -> None:
        self._node = node
        self._threads: dict[int, ExportThread] = {}

    def keep_going(self) -> None:
        """Starts the threads of new exports, and ends those of exports that are paused or gone.
        Raises django.db.Error."""
        rows = Export.objects.filter(paused=False, listed=True).defer("columns")
        active = {export.pk: export for export in rows}
        for pk in self._threads.keys() - active.keys():
            self._threads.pop(pk).stop()
        for pk, export in active.items():
            thread = self._threads.get(pk) or ExportThread(export, self._node)
            self._threads[pk] = thread
            thread.keep_going()

    def stop(self) -> None:
        """Ends them after their current steps. The next leader goes on from there."""
        for thread in self._threads.values():
            thread.stop()
        self._threads.clear()
