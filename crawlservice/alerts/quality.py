"""Conditions of items: findings of quality that are open."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import groupby
from operator import attrgetter
from typing import Any

from django.db.models import Max

from crawlservice.alerts.finding import MOST, Finding, View
from crawlservice.models import Finding as QualityFinding
from crawlservice.quality.findings import open_findings

KEPT = timedelta(days=7)  # after which a finding is history
TOLD = 3  # findings of a task that its sentence names
COLUMNS = ("monitor", "field", "subject", "unit", "low", "high", "usual", "seen")


def failed(view: View) -> Iterator[Finding]:
    """Spiders whose latest run with the same arguments has findings, until they are accepted or a
    later run is good."""
    rows = open_findings().filter(created_at__gt=view.now - KEPT)
    runs = rows.order_by().values("spider", "task__arguments_hash").annotate(latest=Max("task"))
    latest = runs.order_by("-latest").values_list("latest", flat=True)[: MOST + 1]
    rows = rows.filter(task__in=[*latest]).order_by("-task", "source", "pk").defer("examples")
    for task, group in groupby(rows, key=attrgetter("task")):
        found = [*group]
        subject = f"{task.spider}:{task.arguments_hash}" if task.arguments_hash else str(task)
        facts = {
            "spider": task.spider,
            "task": task.pk,
            "found": [facts_of(one) for one in found[:TOLD]],
            "more": len(found[TOLD:]),
        }
        since = min(one.since or one.created_at for one in found)
        yield Finding("quality", subject, since, facts, spider=task.spider, task=task.pk)


def facts_of(finding: QualityFinding) -> dict[str, Any]:
    """What its sentence says; JSON."""
    return {name: getattr(finding, name) for name in COLUMNS}
