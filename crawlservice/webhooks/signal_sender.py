"""SignalSender: sends the events of the outbox as Django signals, in a thread of its own, so that a
slow receiver blocks no chore."""

from __future__ import annotations

import logging
import time

from django.db import Error as DatabaseError
from django.db import connection

from crawlservice import signals
from crawlservice.connections.contained import contained
from crawlservice.models import Installation
from crawlservice.webhooks import outbox
from crawlservice.webhooks.sender_thread import SenderThread

log = logging.getLogger(__name__)

IDLE = 1.0  # seconds between two checks


class SignalSender(SenderThread):
    """The sender of one process. Without receivers it does nothing."""

    sends = "signals"

    def keep_going(self) -> None:
        if signals.wanted():
            super().keep_going()

    def _work(self) -> None:
        while self._wanted:
            self._tick()
            time.sleep(IDLE)

    def _tick(self) -> None:
        try:
            send_new()
        except DatabaseError as error:
            log.warning("signals wait: %s", " ".join(str(error).split()))
            connection.close()


def send_new() -> int:
    """Sends new events; the first time, none. Returns how many. Raises django.db.Error."""
    here = Installation.objects.filter(pk=1)
    last = here.values_list("signalled", flat=True).first()
    if last is None:
        here.update(signalled=outbox.newest())
        return 0
    events = outbox.after(last)
    for event in events:
        with contained(f"event {event.pk}"):
            signals.send(event)
        here.update(signalled=event.pk)  # one by one: a process that dies here repeats only one
    return len(events)
