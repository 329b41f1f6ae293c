"""ReadOnly: no code of this process writes to a database through Django."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from crawlframe.errors import CrawlframeError

_READS = re.compile(
    r"[\s(]*(?:SELECT|WITH|SHOW|EXPLAIN|PRAGMA|SET|BEGIN|SAVEPOINT|RELEASE|ROLLBACK)\b", re.I
)
# In a WITH, and after a SELECT.
_WRITES = re.compile(r"\b(?:INSERT\s+INTO|UPDATE\s+\S+\s+SET|DELETE\s+FROM|MERGE\s+INTO)\b", re.I)
_STRINGS = re.compile(r"'(?:[^']|'')*'")


class WriteRefused(CrawlframeError):
    """Something would have written to a database."""


@contextmanager
def read_only() -> Iterator[None]:
    """Refuses statements that write, of all threads, on connections that are opened from now on.
    This thread's connections are closed before and after. Sessions of the server do not change, as
    other clients of a pool may get them later."""
    guarded: list[BaseDatabaseWrapper] = []

    def guard(connection: BaseDatabaseWrapper, **more: Any) -> None:
        if _judge not in connection.execute_wrappers:
            connection.execute_wrappers.append(_judge)
            guarded.append(connection)

    connections.close_all()
    connection_created.connect(guard)
    try:
        yield
    finally:
        connection_created.disconnect(guard)
        for connection in guarded:
            connection.execute_wrappers.remove(_judge)
        connections.close_all()


def _judge(execute: Callable[..., Any], sql: Any, *given: Any) -> Any:
    """Raises WriteRefused. ``given``: parameters, whether there are several, and the context."""
    text = sql if isinstance(sql, str) else str(sql)
    if not _READS.match(text) or _WRITES.search(_STRINGS.sub("''", text)):
        raise WriteRefused(
            f"{text.split(None, 1)[0][:20].upper() if text.strip() else 'a statement'}: nothing is "
            "written to a database here"
        )
    return execute(sql, *given)
