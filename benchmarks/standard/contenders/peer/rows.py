"""Rows: a thread stores them in batches, so that the crawl never waits for the database."""

from __future__ import annotations

import time
from collections import deque
from threading import Event, Thread
from typing import Any

import orjson
import psycopg2

EVERY = 0.2  # seconds: 50 to 200 rows at the rates of peers
ROWS_PER_INSERT = 500  # rows in one statement
# One parameter costs the client half of execute_values for the same rows.
INSERT = """
INSERT INTO row SELECT * FROM jsonb_to_recordset(%s::jsonb)
AS row(url text, title text, h1 text, price numeric, date date, author text, links int)
ON CONFLICT DO NOTHING
"""

Row = dict[str, Any]


class RowWriter:
    """Rows that are added are committed soon, all of them when ``close`` returns.

    Both raise the database's errors."""

    def __init__(self, database: str) -> None:
        self.stored = 0  # rows that were new
        self.last = 0.0  # time.monotonic() of the last commit
        self._connection = psycopg2.connect(database)
        self._rows: deque[Row] = deque()
        self._closing = Event()
        self._problem: Exception | None = None
        self._thread = Thread(target=self._write)
        self._thread.start()

    def add(self, row: Row) -> None:
        self._raise()
        self._rows.append(row)

    def close(self) -> None:
        self._closing.set()
        self._thread.join()
        self._connection.close()
        self._raise()

    def _raise(self) -> None:
        if self._problem is not None:
            raise self._problem

    def _write(self) -> None:
        try:
            while not self._closing.wait(EVERY):
                self._store()
            self._store()
        except Exception as problem:
            self._problem = problem

    def _store(self) -> None:
        while count := min(len(self._rows), ROWS_PER_INSERT):
            rows = [self._rows.popleft() for _ in range(count)]
            with self._connection, self._connection.cursor() as cursor:
                cursor.execute(INSERT, (orjson.dumps(rows).decode(),))
                self.stored += cursor.rowcount
            self.last = time.monotonic()
