"""Chores of tasks: their time limits, and bulk retries."""

from __future__ import annotations

from functools import partial

from django.db.models.functions import Now

from crawlservice.chores.chore import Calls, Chore
from crawlservice.models import BulkRetry, Task
from crawlservice.tasks import bulk_retry
from crawlservice.tasks.progress import budgets

CHORES = (
    Chore(
        "time limits",
        lambda _steward: Calls(budgets.close_overdue),
        used=lambda: [Task.objects.filter(state=Task.State.RUNNING, deadline__lte=Now())],
    ),
    Chore(
        "bulk retries",
        lambda steward: Calls(partial(bulk_retry.work, steward.still_here)),
        used=lambda: [BulkRetry.objects.filter(state=BulkRetry.State.RUNNING)],
    ),
)
