"""Watch: ends waits for an answer of the database that never comes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Self, TypeAlias

from django.db import connection

if TYPE_CHECKING:
    from crawlservice.connections.watchdog import Watchdog

Watch: TypeAlias = "Watchdog | NoWatch"


class NoWatch:
    """No watch, for SQLite, which runs in the process itself and always answers."""

    waits = ""  # subject of the wait

    def start(self) -> Self:
        """Watches until the process ends."""
        return self

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *error: object) -> None:
        """Stops watching."""


def watch(limit: float, on_late: Callable[[str], None] = lambda waits: None) -> Watch:
    """Watches this process's database: a Watchdog with these arguments for PostgreSQL."""
    if connection.vendor == "sqlite":
        return NoWatch()
    from crawlservice.connections.watchdog import Watchdog  # SQLite needs no psycopg2

    return Watchdog(limit, on_late)
