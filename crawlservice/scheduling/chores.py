"""Chores of schedules: their starts."""

from __future__ import annotations

from functools import partial

from crawlservice.chores.chore import Calls, Chore
from crawlservice.models import Run
from crawlservice.scheduling import schedules

CHORES = (
    Chore(
        "schedules",
        lambda steward: Calls(partial(schedules.start_due, steward.still_here)),
        used=lambda: [schedules.due(), Run.objects.filter(outcome=Run.Outcome.WAITING)],
    ),
)
