"""SenderThread: a thread that runs as long as the process leads."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from typing import ClassVar

from django.db import connection

from crawlservice.connections.contained import failures

GO_ON = 60.0  # seconds for which it goes on without a call of ``keep_going``


class SenderThread(ABC):
    """The leader calls ``keep_going`` repeatedly; the thread is started when it is needed, and
    again after a failure. ``sends`` names what it sends, in messages."""

    sends: ClassVar[str]

    def __init__(self) -> None:
        self._until = 0.0
        self._thread: threading.Thread | None = None

    @abstractmethod
    def _work(self) -> None:
        """Sends while ``_wanted`` is true. May raise anything."""

    @property
    def _wanted(self) -> bool:
        return time.monotonic() < self._until

    def keep_going(self) -> None:
        self._until = time.monotonic() + GO_ON
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name=self.sends, daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Ends it after its current step. The next leader sends what is not sent by then."""
        self._until = 0.0

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:  # it is restarted
            failures.add(f"the sender of {self.sends}", error)
        finally:
            connection.close()
