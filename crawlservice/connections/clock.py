"""Clock: the database's. Nodes and web may disagree about the time, and there is one database; so
what is written into rows, and what is compared with it, is its time."""

from __future__ import annotations

from datetime import UTC, datetime

from django.db import connection

QUESTIONS = {
    "postgresql": "SELECT clock_timestamp()",
    "sqlite": "SELECT strftime('%Y-%m-%d %H:%M:%f', 'now')",
}


def now() -> datetime:
    """The time by the database's clock; in queries, Now() does. Raises django.db.Error."""
    with connection.cursor() as cursor:
        cursor.execute(QUESTIONS[connection.vendor])
        (told,) = cursor.fetchone()
    if isinstance(told, str):
        return datetime.fromisoformat(told).replace(tzinfo=UTC)
    return told  # type: ignore[no-any-return]
