"""Chores of watches: their rounds."""

from __future__ import annotations

from functools import partial

from crawlservice.chores.chore import Calls, Chore
from crawlservice.models import Watch
from crawlservice.watches import rounds

CHORES = (
    Chore(
        "watches",
        lambda steward: Calls(partial(rounds.tick, steward.still_here)),
        used=lambda: [Watch.objects.all()],
    ),
)
