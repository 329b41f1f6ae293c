"""Conditions of deliveries: what leaves the service does not arrive at its target."""

from __future__ import annotations

from collections.abc import Iterator

from crawlservice.alerts.finding import MOST, Finding, View
from crawlservice.models import Export

LONGEST = 300  # characters of a problem


def failing(view: View) -> Iterator[Finding]:
    """All that has failed for long enough, whatever delivers it."""
    yield from _exports(view)


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
