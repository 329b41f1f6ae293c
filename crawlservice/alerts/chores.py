"""Chores of alerts: the look for conditions, and the messages about them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Any

from crawlframe.conf import Settings
from crawlframe.frontier import Counts, Frontier
from crawlservice.alerts import announcements, state
from crawlservice.alerts.condition import RunningTask, ServiceView, conditions, least
from crawlservice.alerts.state import find
from crawlservice.chores.chore import Chore, ChoreContext
from crawlservice.chores.threads import ChoreThread, Work
from crawlservice.connections import clock
from crawlservice.connections.presence import Presence
from crawlservice.models import AlertRule, Task

LOOK_SECONDS = 5.0  # seconds between two looks


class AlertMonitor:
    """Alert conditions, evaluated by one leader."""

    def __init__(self, frontier: Frontier) -> None:
        self._frontier = frontier
        self._memory: dict[str, Any] = {}
        self._presence = Presence({name: one.rows for name, one in conditions().items()})

    def look(self, now: datetime, counts: Mapping[int, Counts | None]) -> bool:
        """Looks for all conditions. ``counts``: the frontier's of the active tasks. Returns
        whether a message is to be sent. Raises django.db.Error."""
        floors = least(AlertRule.objects.filter(enabled=True).values_list("thresholds", flat=True))
        view = ServiceView(now, lambda: self._frontier, _running(counts), floors, self._memory)
        state.record(find(view, absent=self._presence.absent()), floors, now)
        state.mark_checked(now)
        return announcements.announce(now)


def _running(counts: Mapping[int, Counts | None]) -> list[RunningTask]:
    rows = Task.objects.filter(state__in=Task.ACTIVE).order_by("pk").values_list("pk", "spider")
    return [RunningTask(pk, spider, counts.get(pk)) for pk, spider in rows]


def _sender(settings: Settings) -> Work:
    from crawlservice.alerts.outbox import AlertSender  # rarely needed

    return AlertSender(settings)


def _alerts(steward: ChoreContext) -> ChoreThread:
    """The alerts of one leader: found, notified and forgotten."""
    monitor = AlertMonitor(steward.frontier)
    return ChoreThread(
        "alerts",
        partial(_sender, steward.settings),
        lambda: monitor.look(clock.now(), steward.counts),
    )


CHORES = (Chore("alerts", _alerts, period=LOOK_SECONDS, independent=True, each_term=True),)
