"""Clock: the database's. The clocks of nodes and web may differ, but there is one database; so its
time is written into rows, and compared with theirs."""

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
