"""LogWriter: writes the log of tasks in batches, through the commit thread."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import TextIO, cast

from crawlframe.node.worker.commit.task_log import Printed, TaskLog
from crawlframe.run.ledger import ActivityLedger, LedgerAway, LedgerRefused

log = logging.getLogger(__name__)


class LogWriter:
    """``call`` runs a job in the thread that owns the ledger; ``worker``: see TaskLog."""

    def __init__(
        self, ledger: ActivityLedger, call: Callable[[Callable[[], None]], None], worker: str = ""
    ) -> None:
        self.lines = TaskLog(worker)
        self._ledger = ledger
        self._call = call
        self._writing = False

    def listen(self) -> None:
        """Starts to take this process's logs and prints."""
        logging.getLogger().addHandler(self.lines)
        sys.stdout = cast(TextIO, Printed(sys.stdout, self.lines, "stdout", logging.INFO))
        sys.stderr = cast(TextIO, Printed(sys.stderr, self.lines, "stderr", logging.WARNING))

    def tick(self) -> None:
        """Writes the lines. While an earlier write waits for the database, lines are held, and the
        oldest dropped if there are too many."""
        if not self._writing:
            self.flush()

    def flush(self) -> None:
        """Writes the lines, after the write in progress."""
        if self.lines.waits:
            self._writing = True
            self._call(self._write)

    def _write(self) -> None:
        """Writes lines at most once: a failure costs lines, which are counted."""
        lines, lost = self.lines.take()
        try:
            self._ledger.add_log(lines, lost)
        except (LedgerAway, LedgerRefused) as error:
            self.lines.lose(lines, lost)
            log.warning("%d lines of tasks' logs are dropped: %s", len(lines), error)
        finally:
            self._writing = False
