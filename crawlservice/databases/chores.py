"""Chores of other databases: a thread for each that rows wait for."""

from __future__ import annotations

from functools import partial

from crawlservice.chores.chore import Chore, ChoreContext
from crawlservice.chores.threads import ChoreThreads
from crawlservice.databases.delivery import RowStream, databases
from crawlservice.models import RowDelivery


class RowStreams:
    """Brings model items to other databases."""

    def __init__(self, _steward: ChoreContext) -> None:
        self._threads = ChoreThreads()

    def tick(self) -> None:
        """Raises django.db.Error."""
        self._threads.ensure_running(
            {f"rows for the database {name}": partial(RowStream, name) for name in databases()}
        )

    def stop(self) -> None:
        self._threads.stop()


CHORES = (
    Chore(
        "rows for other databases",
        RowStreams,
        used=lambda: [RowDelivery.objects.filter(refused=False)],
    ),
)
