"""LeaderWatch: a thread of each web process that notices when no node leads, or the leader cannot
do its work. The leading steward finds all other conditions, but may not come to report these."""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from datetime import datetime

from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection
from redis import RedisError

from crawlframe.errors import CrawlframeError
from crawlservice.alerts import announcements, nodes, state
from crawlservice.alerts.finding import Finding, View
from crawlservice.alerts.kinds import least
from crawlservice.alerts.sender import AlertSender
from crawlservice.chores.threads import ChoreThread
from crawlservice.connections import clock
from crawlservice.connections.frontier import frontier
from crawlservice.connections.installation import OtherInstallation
from crawlservice.models import AlertRule, Schedule, Task

log = logging.getLogger(__name__)

EVERY = 5.0  # seconds


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
        while not self._stopped.wait(EVERY):
            try:
                self.tick()
            except DatabaseError as error:
                log.debug("whether a node leads is unknown: %s", " ".join(str(error).split()))
            except Exception:
                log.exception("the watch for a leader failed, and goes on")
            finally:
                connection.close()

    def tick(self) -> None:
        """Looks once; sends what is due while no node does. Raises django.db.Error."""
        now = clock.now()
        there = [look(now), look_at_leader(now)]
        if any(there) and announcements.announce(now):
            self._sender.keep_going()


def look_at_leader(now: datetime) -> bool:
    """Opens and resolves alerts about chores, as the leader does if it can. Returns whether there
    is one. Raises django.db.Error."""
    with suppress(RedisError, CrawlframeError):
        found = [*nodes.chores(View(now, frontier(), [], {}))]
        state.record({"chores": found}, {}, now)
        return bool(found)
    return False


def look(now: datetime) -> bool:
    """Opens the alert if no leader has looked for alerts for too long, although there is work.
    Returns whether it is open. The next leader resolves it. Raises django.db.Error."""
    checked = state.checked_at()
    if checked is None:  # none has ever led
        return False
    rules = AlertRule.objects.filter(enabled=True).values_list("thresholds", flat=True)
    floors = least(rules)
    minutes = (now - checked).total_seconds() / 60
    if minutes < floors["no_leader"] or not _has_work():
        return False
    why = _why()
    finding = Finding("no_leader", "", checked, {"why": why}, round(minutes, 1))
    state.record({"no_leader": [finding] if why else []}, floors, now)
    return bool(why)


def _has_work() -> bool:
    active = Task.objects.filter(state__in=Task.ACTIVE).exists()
    return active or Schedule.objects.filter(enabled=True).exists()


def _why() -> str:
    """A word: redis does not answer, it belongs to an other installation, or there are no nodes;
    "" if a node leads, but looks for no alerts, since it is of an older release."""
    try:
        store = frontier().store
        if store.redis.exists(f"{store.keys[0].prefix}:steward"):
            return ""
    except OtherInstallation:
        return "other"
    except (RedisError, CrawlframeError):
        return "redis"
    return "nodes"
