"""SignalSender: sends the events of the outbox as Django signals, in a thread of its own, so that a
slow receiver holds up no chore."""

from __future__ import annotations

import logging
import threading
import time

from django.db import Error as DatabaseError
from django.db import connection

from crawlservice import signals
from crawlservice.models import Installation
from crawlservice.webhooks import outbox

log = logging.getLogger(__name__)

IDLE = 1.0  # seconds between two looks
GO_ON = 60.0  # seconds for which it goes on when nobody says ``keep_going``


class SignalSender:
    """Of one process. Whoever leads says ``keep_going`` again and again."""

    def __init__(self) -> None:
        self._until = 0.0
        self._thread: threading.Thread | None = None

    def keep_going(self) -> None:
        if not signals.wanted():
            return
        self._until = time.monotonic() + GO_ON
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="signals", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """What is not sent, others send."""
        self._until = 0.0

    def _run(self) -> None:
        try:
            while time.monotonic() < self._until:
                self._tick()
                time.sleep(IDLE)
        except Exception:
            log.exception("the sender of signals failed; it is started again")
        finally:
            connection.close()

    def _tick(self) -> None:
        try:
            send_new()
        except DatabaseError as error:
            log.warning("signals wait: %s", " ".join(str(error).split()))
            connection.close()


def send_new() -> int:
    """Sends what has happened since the last time; the first time, nothing. Answers how many.
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
