"""Chores of other databases: a thread for each that rows wait for."""

from __future__ import annotations

from functools import partial

from crawlservice.chores.chore import Chore
from crawlservice.chores.threads import ChoreThreads
from crawlservice.databases.delivery import RowStream, databases
from crawlservice.models import RowDelivery


def _streams() -> dict[str, partial[RowStream]]:
    return {f"rows for the database {name}": partial(RowStream, name) for name in databases()}


CHORES = (
    Chore(
        "rows for other databases",
        lambda _steward: ChoreThreads(_streams),
        used=lambda: [RowDelivery.objects.filter(refused=False)],
    ),
)
