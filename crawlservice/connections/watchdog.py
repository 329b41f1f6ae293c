"""Watchdog: ends waits for an answer of PostgreSQL, even where the answer never comes.

libpq waits as long as the connection lives, and a proxy that swallows answers keeps it alive for
ever. So each connection records since when it waits, and a thread checks them. After the limit it
asks the server, over a connection of its own, whether it is still working, for instance because
another session holds a lock: then the wait continues. Otherwise the connection is closed on both
sides; the caller gets an OperationalError, and finds the outcome in the ledger."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from typing import Any, Self, TypeVar
from weakref import WeakSet

import psycopg2
from psycopg2 import extensions

T = TypeVar("T")

CHECK_EVERY = 1.0  # seconds between two checks
LATE_AFTER = 5.0  # seconds without an answer before it is reported; also between two questions
QUESTION = 10.0  # seconds that the server may take to say whether it is at work
SESSION = """
SELECT state = 'active' AND wait_event_type IS DISTINCT FROM 'Client', state_change
FROM pg_stat_activity WHERE pid = %s AND application_name = current_setting('application_name')
"""
# Only if nothing was asked in the session since it was checked.
END_SESSION = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = %s AND state_change = %s
"""

_open: WeakSet[Connection] = WeakSet()
_lock = threading.Lock()  # of _open


class Connection(extensions.connection):
    """``since``: time.monotonic() from which on it waits for an answer; 0.0 when it does not."""

    def __init__(self, dsn: str, *args: Any, **options: Any) -> None:
        self.since = self.asked = 0.0
        self._given_up = 0.0  # seconds after which we gave up
        self._dsn = dsn
        super().__init__(dsn, *args, **options)
        with _lock:
            _open.add(self)

    def wait(self, ask: Callable[..., T], *arguments: Any) -> T:
        """Asks and waits for the answer. Raises psycopg2.Error."""
        self.since = time.monotonic()
        try:
            return ask(*arguments)
        except psycopg2.OperationalError:
            if self._given_up:
                text = f"the database has not answered for {self._given_up:.0f} s"
                raise psycopg2.OperationalError(text) from None
            raise
        finally:
            self.since = 0.0

    def commit(self) -> None:
        self.wait(super().commit)

    def rollback(self) -> None:
        self.wait(super().rollback)

    def is_at_work(self, since: float) -> bool:
        """Whether the server is still working on the statement sent then, or has answered by now.
        If neither, its session is ended."""
        try:
            other = psycopg2.connect(self._dsn)
        except psycopg2.Error:
            return False
        with closing(other):
            timer = threading.Timer(QUESTION, _shut, [other])
            timer.start()
            try:
                other.autocommit = True
                with other.cursor() as cursor:
                    return self._is_at_work(cursor, since)
            except psycopg2.Error:
                return False
            finally:
                timer.cancel()

    def _is_at_work(self, other: extensions.cursor, since: float) -> bool:
        pid = self.info.backend_pid
        other.execute(SESSION, [pid])
        if (row := other.fetchone()) is None:
            return False
        at_work, changed = row
        if at_work or self.since != since:
            return True
        other.execute(END_SESSION, [pid, changed])
        return False

    def give_up(self, since: float) -> None:
        """Ends a wait that began then with an error."""
        with suppress(psycopg2.Error, OSError), _line_of(self) as line:
            if self.since == since:  # else it may be another connection's by now
                self._given_up = time.monotonic() - since
                line.shutdown(socket.SHUT_RDWR)


class Cursor(extensions.cursor):
    """A cursor of such a connection."""

    connection: Connection

    def execute(self, query: Any, vars: Any = None) -> None:
        self.connection.wait(super().execute, query, vars)

    def executemany(self, query: Any, vars_list: Any) -> None:
        for one in vars_list:
            self.execute(query, one)

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        return self.connection.wait(super().fetchmany, size or self.arraysize)


class Watchdog:
    """``with Watchdog(60.0):`` or ``start``: watches the connections of this process. ``limit`` in
    seconds. ``on_late`` is called repeatedly, in its thread, while a connection waits for long."""

    def __init__(self, limit: float, on_late: Callable[[str], None] = lambda waits: None) -> None:
        self._limit = limit
        self._on_late = on_late
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)
        self.waits = ""  # subject of the wait

    def start(self) -> Self:
        self._thread.start()
        return self

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(CHECK_EVERY):
            self.check()

    def check(self) -> None:
        """Checks all connections once."""
        with _lock:
            connections = [*_open]
        now = time.monotonic()
        waiting = [(one, since) for one in connections if (since := one.since)]
        late = any(now - since > LATE_AFTER for _, since in waiting)
        self.waits = f"the database has not answered for more than {LATE_AFTER:g} s" if late else ""
        if late:
            self._on_late(self.waits)
        self._judge([(one, since) for one, since in waiting if now - since > self._limit])

    def _judge(self, waiting: Sequence[tuple[Connection, float]]) -> None:
        for one, since in waiting:
            now = time.monotonic()
            if now - one.asked < LATE_AFTER:
                continue
            one.asked = now
            if not one.is_at_work(since):
                one.give_up(since)


def _line_of(connection: extensions.connection) -> socket.socket:
    """A duplicate of the connection's socket, for another thread."""
    return socket.socket(fileno=os.dup(connection.fileno()))


def _shut(connection: extensions.connection) -> None:
    with suppress(psycopg2.Error, OSError), _line_of(connection) as line:
        line.shutdown(socket.SHUT_RDWR)
