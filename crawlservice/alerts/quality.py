"""Conditions of items: what checks of their quality have found, from events."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from django.db.models import Exists, Max, OuterRef

from crawlservice.alerts.finding import MOST, Finding, View
from crawlservice.models import Event, Task

EVENT = "quality_failed"
LOOKED_AT = 5_000  # latest events that are looked at
KEPT = timedelta(days=7)  # after which a finding is history


def failed(view: View) -> Iterator[Finding]:
    """Tasks whose items failed a check, until a later run of the spider ends without."""
    newest = Event.objects.aggregate(pk=Max("pk"))["pk"] or 0
    later = Event.objects.filter(task__spider=OuterRef("task__spider"), pk__gt=OuterRef("pk"))
    good = later.filter(outcome=Task.Outcome.FINISHED).exclude(task=OuterRef("task"))
    rows = Event.objects.filter(
        ~Exists(good.filter(pk__gt=newest - LOOKED_AT)),
        pk__gt=newest - LOOKED_AT, kind=EVENT, created_at__gt=view.now - KEPT, task__isnull=False,
    )  # fmt: skip
    found: dict[str, Finding] = {}
    for event in rows.select_related("task").defer("task__seeds").order_by("-pk")[:MOST]:
        if event.task is None or event.task.spider in found:
            continue
        task = event.task
        facts = {"spider": task.spider, "task": task.pk, "reason": event.reason}
        found[task.spider] = Finding(
            "quality", task.spider, event.created_at, facts, spider=task.spider, task=task.pk
        )
    yield from found.values()
