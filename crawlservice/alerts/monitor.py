"""AlertMonitor: the leading steward's look at all conditions, every few seconds."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from crawlframe.frontier import Counts, Frontier
from crawlservice.alerts import announcements, state
from crawlservice.alerts.conditions import find
from crawlservice.alerts.finding import RunningTask, View
from crawlservice.alerts.kinds import least
from crawlservice.alerts.tasks import Silence
from crawlservice.models import AlertRule, Task

EVERY = 5.0  # seconds between two looks


class AlertMonitor:
    """Of one leader."""

    def __init__(self, frontier: Frontier) -> None:
        self._frontier = frontier
        self._silence = Silence()

    def look(self, now: datetime, counts: Mapping[int, Counts | None]) -> bool:
        """Looks for all conditions. ``counts``: the frontier's of the active tasks. Returns
        whether a message is to be sent. Raises django.db.Error."""
        floors = least(AlertRule.objects.filter(enabled=True).values_list("thresholds", flat=True))
        view = View(now, self._frontier, _running(counts), floors)
        known = {int(task): since for task, since in state.began("silent").items()}
        since = self._silence.look(view.tasks, known, now)
        state.record(find(view, since), floors, now)
        state.mark_checked(now)
        return announcements.announce(now)


def _running(counts: Mapping[int, Counts | None]) -> list[RunningTask]:
    rows = Task.objects.filter(state__in=Task.ACTIVE).order_by("pk").values_list("pk", "spider")
    return [RunningTask(pk, spider, counts.get(pk)) for pk, spider in rows]
