"""Watch: who makes sure that no process waits in vain for an answer of the database."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from django.db import connection


class Watch:
    """The watch over SQLite, which answers in the process itself: nothing to do."""

    waits = ""  # what somebody waits for

    def start(self) -> Self:
        """From now on, until the process ends."""
        return self

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *error: object) -> None:
        """Ends it."""


def watch(limit: float, tell: Callable[[str], None] = lambda waits: None) -> Watch:
    """The watch over this process's database. The arguments are those of Watchdog, which it is for
    PostgreSQL."""
    if connection.vendor == "sqlite":
        return Watch()
    from crawlservice.watchdog import Watchdog  # SQLite needs no psycopg2

    return Watchdog(limit, tell)
