"""SenderThread: a thread that runs as long as the process leads."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from django.db import connection

log = logging.getLogger(__name__)

GO_ON = 60.0  # seconds for which it goes on without a call of ``keep_going``


class SenderThread:
    """The leader calls ``keep_going`` repeatedly; the thread is started when it is needed, and
    again after a failure."""

    def __init__(self, name: str, run: Callable[[], None]) -> None:
        """``run`` works while ``wanted`` is true. It may raise anything."""
        self._name = name
        self._work = run
        self._until = 0.0
        self._thread: threading.Thread | None = None

    @property
    def wanted(self) -> bool:
        return time.monotonic() < self._until

    def keep_going(self) -> None:
        self._until = time.monotonic() + GO_ON
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Ends it after its current step. The next leader sends what is not sent by then."""
        self._until = 0.0

    def _run(self) -> None:
        try:
            self._work()
        except Exception:
            log.exception("the sender of %s failed and is restarted", self._name)
        finally:
            connection.close()
