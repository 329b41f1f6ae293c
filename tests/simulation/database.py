"""Database: SQLite, with waits and kills as the scheduler decides. Statements run on the real
library; where a process would wait for a lock or the disk, simulated time passes."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from typing import Any

from django.db.backends.sqlite3 import base

from tests.simulation.interpreter import SYSTEM
from tests.simulation.scheduler import Killed, Process

WRITES = ("INSERT", "UPDATE", "DELETE", "BEGIN", "REPLACE")
TABLE = re.compile(r'"(\w+)"')
LOCKED = ("locked",)
LOCK_TIMEOUT = 20.0  # seconds, as the product sets it


class Disk:
    """The behaviour of the database's disk; ``hook`` is called before each write and commit, and
    may raise."""

    def __init__(self) -> None:
        self.hook: Callable[[str], None] = lambda point: None
        self.latency = 0.002  # seconds of a commit at most


DISK = Disk()


def _pause(seconds: float) -> None:
    if SYSTEM.thread is not None:
        SYSTEM.scheduler.wait(seconds)


class Connection(sqlite3.Connection):
    """A connection that never waits inside of the library."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        options["timeout"] = 0.0
        super().__init__(*arguments, **options)
        self.process = SYSTEM.process
        if self.process is not None:
            self.process.namespace.setdefault("connections", []).append(self)
        self.create_function("STRFTIME", -1, _strftime)

    def commit(self) -> None:
        _check()
        if self.in_transaction:
            DISK.hook("commit.before")
            _pause(DISK.latency * SYSTEM.scheduler.random.random())
            _patient(super().commit)
            DISK.hook("commit.after")
        else:
            super().commit()


class Cursor(base.SQLiteCursorWrapper):
    def execute(self, query: str, params: Any = None) -> Any:
        _check()
        _before(query)
        return _patient(lambda: base_execute(self, query, params))

    def executemany(self, query: str, params: Any) -> Any:
        _check()
        _before(query)
        rows = [*params]
        return _patient(lambda: base_executemany(self, query, rows))


base_execute = base.SQLiteCursorWrapper.execute
base_executemany = base.SQLiteCursorWrapper.executemany


def _before(query: str) -> None:
    """A fault may strike before each write; the point names its table, as rare ones matter too."""
    if query.startswith(WRITES):
        table = TABLE.search(query)
        DISK.hook(f"write.{table[1] if table else query[:5]}")
        _pause(0.0)


def _check() -> None:
    process = SYSTEM.process
    if process is not None and not process.alive:
        raise Killed


def _patient(act: Callable[[], Any]) -> Any:
    """Tries again while another process holds the lock, as the library does."""
    end = SYSTEM.scheduler.now + LOCK_TIMEOUT
    while True:
        try:
            return act()
        except sqlite3.OperationalError as error:
            locked = any(word in str(error) for word in LOCKED)
            if not locked or SYSTEM.scheduler.now >= end or SYSTEM.thread is None:
                raise
        _pause(0.001 + 0.01 * SYSTEM.scheduler.random.random())


def _strftime(form: str, *moment: Any) -> str:
    """SQLite's function, by the clock of the simulation."""
    from datetime import UTC, datetime

    if not moment or str(moment[0]).lower() != "now" or len(moment) > 1:
        raise sqlite3.OperationalError(f"the simulation knows no strftime{(form, *moment)}")
    now = datetime.fromtimestamp(SYSTEM.scheduler.start + SYSTEM.scheduler.now, UTC)
    form = form.replace("%f", f"{now.second:02d}.{now.microsecond // 1000:03d}")
    return now.strftime(form)


def close_connections(process: Process) -> None:
    """The kernel closes the files of a dead process: open transactions are rolled back."""
    for connection in process.namespace.pop("connections", ()):
        try:
            sqlite3.Connection.rollback(connection)
            connection.close()
        except sqlite3.Error:
            pass


def install() -> None:
    """Replaces the connections and cursors of Django's SQLite backend."""
    connect = sqlite3.dbapi2.connect

    def connect_simulated(*arguments: Any, **options: Any) -> sqlite3.Connection:
        options["factory"] = Connection
        return connect(*arguments, **options)

    base.Database.connect = connect_simulated  # type: ignore[attr-defined]
    base.SQLiteCursorWrapper = Cursor  # type: ignore[misc]
