"""Conditions of deliveries: what leaves the service does not arrive at its target."""

from __future__ import annotations

from collections.abc import Iterator

from crawlservice.alerts.finding import MOST, Finding, View
from crawlservice.databases.delivery import databases
from crawlservice.models import Export, RowDelivery

LONGEST = 300  # characters of a problem


def failing(view: View) -> Iterator[Finding]:
    """All that has failed for long enough, whatever delivers it."""
    yield from _exports(view)
    yield from _rows(view)


def _exports(view: View) -> Iterator[Finding]:
    """Exports whose target fails; paused ones are not tried."""
    rows = Export.objects.filter(paused=False, listed=True, problem_since__isnull=False)
    for export in rows.order_by("pk")[:MOST]:
        assert export.problem_since is not None
        minutes = (view.now - export.problem_since).total_seconds() / 60
        if minutes < view.floor("delivery"):
            continue
        facts = {
            "export": export.name,
            "number": export.pk,
            "problem": export.problem.partition("\n")[0][:LONGEST],
        }
        yield Finding(
            "delivery",
            f"export:{export.pk}",
            export.problem_since,
            facts,
            round(minutes, 1),
            spider=export.spider,
        )


def _rows(view: View) -> Iterator[Finding]:
    """Other databases: rows of items wait for one that fails, or were refused by one."""
    for name in databases():
        first = RowDelivery.objects.filter(database=name, refused=False).order_by("pk").first()
        if first is None or not first.problem:
            continue
        minutes = (view.now - first.created_at).total_seconds() / 60
        if minutes >= view.floor("delivery"):
            facts = {"database": name, "problem": first.problem[:LONGEST]}
            yield Finding("delivery", f"rows:{name}", first.created_at, facts, round(minutes, 1))
    refused = RowDelivery.objects.filter(refused=True).order_by("pk")
    for row in refused.only("database", "task", "problem", "tried_at", "created_at")[:MOST]:
        told = {"database": row.database, "refused": row.pk, "problem": row.problem[:LONGEST]}
        since = row.tried_at or row.created_at
        yield Finding("delivery", f"refused:{row.pk}", since, told, task=row.task)
