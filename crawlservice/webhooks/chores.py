"""Chores of events: they are sent to webhooks, and as Django signals."""

from __future__ import annotations

from functools import partial

from crawlframe.conf import Settings
from crawlservice import signals
from crawlservice.chores.chore import Chore
from crawlservice.chores.threads import ChoreThread, Work
from crawlservice.connections.contained import contained
from crawlservice.models import Event, Installation
from crawlservice.webhooks import deliveries
from crawlservice.webhooks.deliveries import OUTBOX, create_deliveries

IDLE_SECONDS = 1.0  # seconds between two checks


class SignalSender(Work):
    """The work of one thread."""

    def step(self) -> float:
        """Raises django.db.Error."""
        send_new()
        return IDLE_SECONDS


def send_new() -> int:
    """Sends new events; the first time, none. Returns how many. Raises django.db.Error."""
    here = Installation.objects.filter(pk=1)
    last = here.values_list("signalled", flat=True).first()
    if last is None:
        here.update(signalled=deliveries.newest())
        return 0
    events = deliveries.after(last)
    for event in events:
        with contained(f"event {event.pk}"):
            signals.send(event)
        here.update(signalled=event.pk)  # one by one: a process that dies here repeats only one
    return len(events)


def _sender(settings: Settings) -> Work:
    # Imported here: most nodes never need it, and it takes memory.
    from crawlservice.webhooks.sender import WebhookSender

    return WebhookSender(settings)


CHORES = (
    Chore(
        "webhooks",
        lambda steward: ChoreThread(
            "webhooks", partial(_sender, steward.settings), create_deliveries
        ),
        used=lambda: [Event.objects.filter(delivered_at=None), OUTBOX.due()],
    ),
    Chore("signals", lambda _steward: ChoreThread("signals", SignalSender, signals.wanted)),
)
