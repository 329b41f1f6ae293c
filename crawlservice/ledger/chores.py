"""Chores of the ledger: the rows of cancelled requests."""

from __future__ import annotations

from crawlservice.chores.chore import Chore
from crawlservice.ledger.cancellation import Settler, unsettled

CHORES = (
    Chore(
        "cancelled requests",
        lambda _steward: Settler(),
        each_term=True,
        used=lambda: [unsettled()],
    ),
)
