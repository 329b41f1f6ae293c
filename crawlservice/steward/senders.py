"""Senders: what the leading steward sends out, each kind in a thread of its own, so that a receiver
that hangs blocks no chore."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crawlframe.conf import Settings
from crawlservice.connections.contained import contained
from crawlservice.databases.threads import OutboxThreads
from crawlservice.exports.file import ExportsFile
from crawlservice.models import Export
from crawlservice.pages.segments import segments_of_node
from crawlservice.webhooks.deliveries import create_deliveries
from crawlservice.webhooks.signal_sender import SignalSender

if TYPE_CHECKING:
    from crawlservice.alerts.sender import AlertSender
    from crawlservice.exports.threads import ExportThreads
    from crawlservice.webhooks.sender import WebhookSender


class Senders:
    """The senders of one steward. Call each method in every round; a sender starts when there is
    something to send, and ends when the steward leads no more."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._signals = SignalSender()
        self._webhooks: WebhookSender | None = None
        self._alerts: AlertSender | None = None
        self._file = ExportsFile(settings)
        self._exports: ExportThreads | None = None
        self._rows = OutboxThreads()
        self._segments = segments_of_node()

    def send_signals(self) -> None:
        """Sends Django signals, if any has a receiver."""
        self._signals.keep_going()

    def send_webhooks(self) -> None:
        """Makes the deliveries of new events, and sends what is due. Raises django.db.Error."""
        if not create_deliveries():
            return
        if self._webhooks is None:
            # Imported here: most nodes never need it, and it takes memory.
            from crawlservice.webhooks.sender import WebhookSender

            self._webhooks = WebhookSender(self._settings)
        self._webhooks.keep_going()

    def send_alerts(self, due: bool) -> None:
        """Sends the messages of alerts. ``due``: whether one is to be sent."""
        if not due:
            return
        if self._alerts is None:
            from crawlservice.alerts.sender import AlertSender

            self._alerts = AlertSender(self._settings)
        self._alerts.keep_going()

    def export(self) -> None:
        """Reads the file of exports if it has changed, and carries all exports on. Raises
        django.db.Error."""
        with contained("the file of exports"):
            self._file.look()
        if self._exports is None:
            if not Export.objects.filter(paused=False, listed=True).exists():
                return
            from crawlservice.exports.threads import ExportThreads  # as above

            self._exports = ExportThreads(self._settings)
        self._exports.keep_going()

    def keep_segments(self) -> None:
        """Finishes and uploads the segments of kept pages. Every node does."""
        if self._segments is not None:
            self._segments.keep_going()

    def deliver_rows(self) -> None:
        """Brings model items to other databases. Raises django.db.Error."""
        self._rows.keep_going()

    def stop(self) -> None:
        """Ends them after their current steps."""
        self._signals.stop()
        self._rows.stop()
        if self._segments is not None:
            self._segments.finish()
        for sender in (self._webhooks, self._alerts, self._exports):
            if sender is not None:
                sender.stop()
