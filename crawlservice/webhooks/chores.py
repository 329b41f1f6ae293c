"""Chores of events: they are sent to webhooks, and as Django signals."""

from __future__ import annotations

from crawlservice import signals
from crawlservice.chores.chore import Chore, ChoreContext
from crawlservice.chores.threads import ChoreThread, Work
from crawlservice.models import Event
from crawlservice.webhooks.deliveries import OUTBOX, create_deliveries
from crawlservice.webhooks.signal_sender import SignalSender


class Webhooks:
    """Makes the deliveries of new events, and sends what is due."""

    def __init__(self, steward: ChoreContext) -> None:
        def sender() -> Work:
            # Imported here: most nodes never need it, and it takes memory.
            from crawlservice.webhooks.sender import WebhookSender

            return WebhookSender(steward.settings)

        self._sender = ChoreThread("webhooks", sender)

    def tick(self) -> None:
        """Raises django.db.Error."""
        if create_deliveries():
            self._sender.keep_going()

    def stop(self) -> None:
        self._sender.stop()


class Signals:
    """Sends new events, if a signal has a receiver."""

    def __init__(self, _steward: ChoreContext) -> None:
        self._sender = ChoreThread("signals", SignalSender)

    def tick(self) -> None:
        if signals.wanted():
            self._sender.keep_going()

    def stop(self) -> None:
        self._sender.stop()


CHORES = (
    Chore(
        "webhooks",
        Webhooks,
        used=lambda: [Event.objects.filter(delivered_at=None), OUTBOX.due()],
    ),
    Chore("signals", Signals),
)
