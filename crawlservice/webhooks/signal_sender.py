"""SignalSender: sends the events of the outbox as Django signals."""

from __future__ import annotations

from crawlservice import signals
from crawlservice.chores.threads import Work
from crawlservice.connections.contained import contained
from crawlservice.models import Installation
from crawlservice.webhooks import event_order

IDLE = 1.0  # seconds between two checks


class SignalSender(Work):
    """The work of one thread."""

    def step(self) -> float:
        """Raises django.db.Error."""
        send_new()
        return IDLE


def send_new() -> int:
    """Sends new events; the first time, none. Returns how many. Raises django.db.Error."""
    here = Installation.objects.filter(pk=1)
    last = here.values_list("signalled", flat=True).first()
    if last is None:
        here.update(signalled=event_order.newest())
        return 0
    events = event_order.after(last)
    for event in events:
        with contained(f"event {event.pk}"):
            signals.send(event)
        here.update(signalled=event.pk)  # one by one: a process that dies here repeats only one
    return len(events)
