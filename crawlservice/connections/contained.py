"""Contained: the failure of one row in a chore, which ends neither the chore nor the other rows."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import DatabaseError, InterfaceError, OperationalError, connection
from redis import ConnectionError, RedisError, TimeoutError

from crawlframe.errors import CrawlframeError, EraChanged
from crawlframe.frontier.cluster.nodes import FAILURES_WITHIN
from crawlframe.items.encode import clean_text
from crawlframe.run.ledger import LedgerAway
from crawlservice.connections.frontier import frontier

log = logging.getLogger(__name__)

FRESH_SECONDS = 90.0  # seconds for which a failure is named; each chore runs at least that often
MAX_MESSAGE = 500  # characters of a message
MAX_FAILURES = 3  # failures named at a time
ROWS = 1_000  # that are remembered
# Of a server or the way to it, also if that answers again by now: no row is to blame.
AWAY = (ConnectionError, TimeoutError, InterfaceError, OperationalError, LedgerAway)
TOO_MUCH = "54"  # class of PostgreSQL errors: a limit of the program is exceeded


class Failures:
    """Failures of this process: of each row the times of its failures, and the text of the latest.
    May be used by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: dict[str, tuple[list[float], str]] = {}

    def add(self, what: str, error: Exception) -> None:
        """Counts a failure of the row ``what``, and logs it if it is the first of this row in
        FAILURES_WITHIN seconds."""
        text = text_of(error)
        with self._lock:
            times, _ = self._lately().get(what, ([], ""))
            if len(self._rows) < ROWS or times:
                self._rows[what] = [*times, time.monotonic()], f"{what}: {text}"
        if not times:
            log.error("%s failed; the others continue: %s", what, text, exc_info=error)

    def lately(self) -> int:
        """The number of failures in the last FAILURES_WITHIN seconds."""
        with self._lock:
            return sum(len(times) for times, _ in self._lately().values())

    def named(self) -> list[str]:
        """Rows that failed just now, with the reason."""
        since = time.monotonic() - FRESH_SECONDS
        with self._lock:
            return [text for times, text in self._rows.values() if times[-1] > since][:MAX_FAILURES]

    def _lately(self) -> dict[str, tuple[list[float], str]]:
        since = time.monotonic() - FAILURES_WITHIN
        kept = {w: ([t for t in times if t > since], s) for w, (times, s) in self._rows.items()}
        self._rows = {what: row for what, row in kept.items() if row[0]}
        return self._rows


failures = Failures()


def text_of(error: Exception) -> str:
    """Type and message of an error in one line, fit for a column of text."""
    text = " ".join(clean_text(str(error)).split())
    return f"{type(error).__name__}: {text}"[:MAX_MESSAGE].rstrip(": ")


@contextmanager
def contained(what: str) -> Iterator[list[Exception]]:
    """Notes the exception of its block, which works on ``what``, and continues behind it; then the
    list has it. Raises EraChanged, lost connections, and any other error if a server does not
    answer or a transaction of the caller is broken: other rows would fail for the same reason."""
    failed: list[Exception] = []
    try:
        yield failed
    except EraChanged:
        raise
    except Exception as error:
        broken = connection.in_atomic_block and connection.needs_rollback
        if is_away(error) or broken or not servers_answer():
            raise
        failed.append(error)
        failures.add(what, error)


def is_away(error: BaseException) -> bool:
    """Whether it says that a server, or the way to it, was away."""
    if isinstance(error, LedgerAway) and error.__context__:  # its name for all that may pass
        return is_away(error.__context__)
    return isinstance(error, AWAY) and not exceeds_limit(error)


def exceeds_limit(error: BaseException) -> bool:
    """Whether the database says that a row is too large for it."""
    return (getattr(error.__cause__, "pgcode", None) or "").startswith(TOO_MUCH)


def servers_answer() -> bool:
    """Whether the database and Redis do."""
    try:
        if not connection.in_atomic_block:
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1")
        frontier().store.redis.ping()
    except (DatabaseError, RedisError, CrawlframeError, OSError):
        return False
    return True
