"""LeaderWatch: a thread of each web process that notices when no node leads, or the leader cannot
do its work. The leading steward finds all other conditions, but may not come to report these."""

from __future__ import annotations

import logging
import threading
from datetime import datetime

from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection

from crawlservice.alerts import announcements, state
from crawlservice.alerts.condition import Alarm, ServiceView, least
from crawlservice.alerts.outbox import AlertSender
from crawlservice.alerts.state import find
from crawlservice.chores.threads import ChoreThread
from crawlservice.connections import clock
from crawlservice.connections.frontier import frontier
from crawlservice.models import AlertRule

log = logging.getLogger(__name__)

LOOK_SECONDS = 5.0  # seconds


class LeaderWatch:
    """Call ``start`` once in a process."""

    def __init__(self) -> None:
        self._sender = ChoreThread("alerts", lambda: AlertSender(settings.CRAWLFRAME))
        self._stopped = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._run, name="leader watch", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()
        self._sender.stop()

    def _run(self) -> None:
        while not self._stopped.wait(LOOK_SECONDS):
            try:
                self.tick()
            except DatabaseError as error:
                log.debug("whether a node leads is unknown: %s", " ".join(str(error).split()))
            except Exception:
                log.exception("the watch for a leader failed, and continues")
            finally:
                connection.close()

    def tick(self) -> None:
        """Looks once; sends due messages while no node does. Raises django.db.Error."""
        now = clock.now()
        if look(now) and announcements.announce(now):
            self._sender.ensure_running()


def look(now: datetime) -> bool:
    """Looks for the conditions that the web finds, and opens and resolves their alerts. Returns
    whether there is one. Raises django.db.Error."""
    floors = least(AlertRule.objects.filter(enabled=True).values_list("thresholds", flat=True))
    found = find(ServiceView(now, frontier, [], floors), by_web=True)
    state.record(found, floors, now)
    return any(isinstance(one, Alarm) for some in found.values() for one in some)
