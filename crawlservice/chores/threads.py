"""Threads of chores: long work is done apart from the steward's rounds, which must not wait for
it."""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

from django.db import Error as DatabaseError
from django.db import connection

from crawlframe.run.ledger import LedgerAway
from crawlservice.connections.contained import failures, is_away

log = logging.getLogger(__name__)

LINGER_SECONDS = 60.0  # seconds for which a thread continues without a call of ``ensure_running``
RETRY = 1.0  # seconds to the next step if the service's database does not answer


class Work(ABC):
    """The work of one thread, which makes, does and closes it."""

    @abstractmethod
    def step(self) -> float | None:
        """Returns the seconds after which to call it again; None: there is nothing more to do. May
        raise anything; after django.db.Error and LedgerAway it is called again."""

    def close(self) -> None:  # noqa: B027 - most hold nothing
        """Releases its resources, if any. May raise anything."""


Make = Callable[[], Work]


class ChoreThread:
    """Started when it is needed, and again after a failure. ``name`` stands in messages."""

    def __init__(self, name: str, work: Make, wanted: Callable[[], bool] | None = None) -> None:
        self._name, self._work, self._wanted = name, work, wanted
        self._until = 0.0
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def tick(self) -> None:
        """As a chore: lets it run while it is wanted. Raises the errors of ``wanted``."""
        if self._wanted is None or self._wanted():
            self.ensure_running()

    def ensure_running(self) -> None:
        """Called again and again while its process leads."""
        self._until = time.monotonic() + LINGER_SECONDS
        self._stopped.clear()
        if not self.is_alive:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def stop(self) -> None:
        """Ends it after its current step. The next leader continues from there."""
        self._until = 0.0
        self._stopped.set()

    def _run(self) -> None:
        try:
            work = self._work()
            try:
                self._repeat(work)
            finally:
                work.close()
        except Exception as error:  # it is restarted
            self._note(error)
        finally:
            connection.close()

    def _repeat(self, work: Work) -> None:
        while time.monotonic() < self._until:
            try:
                pause = work.step()
            except (LedgerAway, DatabaseError) as error:
                self._note(error)
                connection.close()
                pause = RETRY
            if pause is None:
                return
            if pause:
                self._stopped.wait(pause)

    def _note(self, error: Exception) -> None:
        if is_away(error):
            log.warning("%s: %s", self._name, " ".join(str(error).split()))
        else:
            failures.add(self._name, error)


class ChoreThreads:
    """A chore with a thread for each of several streams. ``works``: by the names of threads."""

    def __init__(self, works: Callable[[], Mapping[str, Make]]) -> None:
        self._works = works
        self._threads: dict[str, ChoreThread] = {}

    def tick(self) -> None:
        """Starts the threads that are missing. Others end by themselves. Raises the errors
        of ``works``."""
        living = {name: thread for name, thread in self._threads.items() if thread.is_alive}
        self._threads = living
        for name, work in self._works().items():
            if name not in living:
                living[name] = ChoreThread(name, work)
            living[name].ensure_running()

    def stop(self) -> None:
        """Ends them as ``ChoreThread.stop`` does."""
        for thread in self._threads.values():
            thread.stop()
        self._threads.clear()
