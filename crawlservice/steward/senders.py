"""Senders: what the leading steward sends out, each kind in a thread of its own, so that a receiver
that hangs blocks no chore."""

from __future__ import annotations

from functools import partial

from crawlframe.conf import Settings
from crawlservice import signals
from crawlservice.chores.threads import ChoreThread, ChoreThreads, Work
from crawlservice.connections.contained import contained
from crawlservice.databases.delivery import RowStream, databases
from crawlservice.exports.file import ExportsFile
from crawlservice.models import Export
from crawlservice.pages.segments import segments_of_node
from crawlservice.webhooks.deliveries import create_deliveries
from crawlservice.webhooks.signal_sender import SignalSender


class Senders:
    """The senders of one steward. Call each method in every round; a sender starts when there is
    something to send, and ends when the steward leads no more."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._signals = ChoreThread("signals", SignalSender)
        self._webhooks = ChoreThread("webhooks", self._webhook_sender)
        self._alerts = ChoreThread("alerts", self._alert_sender)
        self._file = ExportsFile(settings)
        self._exports, self._rows = ChoreThreads(), ChoreThreads()
        segments = self._segments = segments_of_node()
        self._segment_thread: ChoreThread | None = None
        if segments is not None:
            self._segment_thread = ChoreThread("segments of pages", lambda: segments)

    def _webhook_sender(self) -> Work:
        # Imported here, as the others: most nodes never need it, and it takes memory.
        from crawlservice.webhooks.sender import WebhookSender

        return WebhookSender(self._settings)

    def _alert_sender(self) -> Work:
        from crawlservice.alerts.sender import AlertSender

        return AlertSender(self._settings)

    def send_signals(self) -> None:
        """Sends Django signals, if any has a receiver."""
        if signals.wanted():
            self._signals.keep_going()

    def send_webhooks(self) -> None:
        """Makes the deliveries of new events, and sends what is due. Raises django.db.Error."""
        if create_deliveries():
            self._webhooks.keep_going()

    def send_alerts(self, due: bool) -> None:
        """Sends the messages of alerts. ``due``: whether one is to be sent."""
        if due:
            self._alerts.keep_going()

    def export(self) -> None:
        """Reads the file of exports if it has changed, and carries all exports on. Raises
        django.db.Error."""
        with contained("the file of exports"):
            self._file.look()
        rows = Export.objects.filter(paused=False, listed=True).values_list("pk", "name")
        if found := [*rows]:
            from crawlservice.exports.exporter import Exporter

            works = {f"export {name}": partial(Exporter, pk, self._settings) for pk, name in found}
            self._exports.keep_going(works)

    def keep_segments(self) -> None:
        """Finishes and uploads the segments of kept pages. Every node does."""
        if self._segment_thread is not None:
            self._segment_thread.keep_going()

    def deliver_rows(self) -> None:
        """Brings model items to other databases. Raises django.db.Error."""
        self._rows.keep_going({f"rows for {one}": partial(RowStream, one) for one in databases()})

    def stop(self) -> None:
        """Ends them after their current steps."""
        for sender in (self._signals, self._webhooks, self._alerts, self._exports, self._rows):
            sender.stop()
        if self._segments is not None and self._segment_thread is not None:
            self._segment_thread.stop()
            self._segments.finish()
