"""SignalSender: sends the events of the outbox as Django signals, in a thread of its own, so that a
slow receiver holds up no chore."""

from __future__ import annotations

import logging
import time

from django.db import Error as DatabaseError
from django.db import connection

from crawlservice import signals
from crawlservice.models import Installation
from crawlservice.webhooks import outbox
from crawlservice.webhooks.sender_thread import SenderThread

log = logging.getLogger(__name__)

IDLE = 1.0  # seconds between two looks


class SignalSender:
    """Of one process. Whoever leads calls ``keep_going`` again and again."""

    def __init__(self) -> None:
        self._thread = SenderThread("signals", self._run)

    def keep_going(self) -> None:
        if signals.wanted():
            self._thread.keep_going()

    def stop(self) -> None:
        self._thread.stop()

    def _run(self) -> None:
        while self._thread.wanted:
            self._tick()
            time.sleep(IDLE)

    def _tick(self) -> None:
        try:
            send_new()
        except DatabaseError as error:
            log.warning("signals wait: %s", " ".join(str(error).split()))
            connection.close()


def send_new() -> int:
    """Sends what has happened since the last time; the first time, nothing. Returns how many.
    Raises django.db.Error."""
    here = Installation.objects.filter(pk=1)
    last = here.values_list("signalled", flat=True).first()
    if last is None:
        here.update(signalled=outbox.newest())
        return 0
    events = outbox.after(last)
    for event in events:
        signals.send(event)
        here.update(signalled=event.pk)  # one by one: whoever dies now repeats one only
    return len(events)
