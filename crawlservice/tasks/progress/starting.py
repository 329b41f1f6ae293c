"""Starting: how far the start of a task is that yields much."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from django.db.models import Max

from crawlframe.request.request import root_admission
from crawlservice.models import Page, StartPart


def yielded(tasks: Collection[int]) -> dict[int, int]:
    """The requests that starts have yielded so far, dropped ones included, of those tasks whose
    start still runs and has recorded some. Raises django.db.Error."""
    parts = StartPart.objects.filter(task__in=tasks).order_by().values_list("task")
    found = dict(parts.annotate(Max("position")))
    rids = {UUID(bytes=root_admission(task).rid): task for task in found}
    for rid in Page.objects.filter(rid__in=rids).values_list("rid", flat=True):
        del found[rids[rid]]
    return found
