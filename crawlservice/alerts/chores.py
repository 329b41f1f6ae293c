"""Chores of alerts: the look for conditions, and the messages about them."""

from __future__ import annotations

from crawlservice.alerts.monitor import EVERY, AlertMonitor
from crawlservice.chores.chore import Chore, ChoreContext
from crawlservice.chores.threads import ChoreThread, Work
from crawlservice.connections import clock


class Alerts:
    """Those of one leader."""

    def __init__(self, steward: ChoreContext) -> None:
        def sender() -> Work:
            from crawlservice.alerts.sender import AlertSender  # rarely needed

            return AlertSender(steward.settings)

        self._steward = steward
        self._monitor = AlertMonitor(steward.frontier)
        self._sender = ChoreThread("alerts", sender)

    def tick(self) -> None:
        """Raises django.db.Error."""
        if self._monitor.look(clock.now(), self._steward.counts):
            self._sender.keep_going()

    def stop(self) -> None:
        self._sender.stop()


CHORES = (Chore("alerts", Alerts, period=EVERY, independent=True, each_term=True),)
