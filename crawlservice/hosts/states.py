"""States of hosts: rows of the database with the live state of the frontier."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from redis import RedisError

from crawlframe.errors import CrawlframeError
from crawlframe.frontier.hosts import HostState
from crawlservice.connections.frontier import frontier
from crawlservice.hosts.rules import HostCondition, rule_of
from crawlservice.models import Host

# What is described under its own name.
OF_HOST = (
    "id", "name", "first_at", "last_at", "pages", "errors", "bytes", "statuses", "latency_ms",
    "last_status", "last_reason", "held_since", "delay", "concurrency", "paused", "order_until",
    "note", "ordered_at",
)  # fmt: skip
OF_STATE = ("queued", "in_flight", "blocks", "address", "robots_delay")
OF_NOW = ("until", "live", "gap", "robots_until", "robots_wait")
LONG_WAIT = 3600.0  # seconds of rest from which a host counts as held
SHORT_WAIT = 1.0  # seconds below which a host that waits for its delay counts as crawling
LAST = datetime.max.replace(tzinfo=UTC).timestamp() - 86_400  # seconds since the epoch


@dataclass(frozen=True)
class HostNow:
    """A host at this instant. ``state`` is empty unless ``live``: Redis has answered. ``now``:
    seconds since the epoch."""

    host: Host
    state: HostState
    live: bool
    now: float

    @property
    def condition(self) -> HostCondition:
        state = self.state
        if not self.live:
            return HostCondition.UNKNOWN
        if self.closed > 0 or state.why == "blocked":
            condition = rule_of(state.why).condition
            long = condition is HostCondition.RESTING and self.closed > LONG_WAIT
            return HostCondition.HELD if long else condition
        left = state.next_at - self.now
        if state.queued and left >= SHORT_WAIT:
            return HostCondition.WAITING
        if state.in_flight or (state.queued and left > 0):
            return HostCondition.CRAWLING
        return HostCondition.WAITING if state.queued else HostCondition.IDLE

    @property
    def closed(self) -> float:
        """Seconds until the gate opens; 0: it is open. ``inf``: until an operator acts."""
        return max(0.0, self.state.closed_until - self.now)

    @property
    def until(self) -> datetime | None:
        """When the present condition ends by itself; None: that is not known, or never."""
        if not self.live:
            return None
        if self.closed > 0:
            return moment(self.state.closed_until)
        waits = self.condition is HostCondition.WAITING and self.state.next_at > self.now
        return moment(self.state.next_at) if waits else None

    @property
    def gap(self) -> float | None:
        """Seconds between two requests in force: of the adaptive rate, an order or the tasks; None:
        no task has requests of it."""
        return self.state.gap if self.state.gap is not None else self.state.delay

    @property
    def allowed(self) -> float | None:
        """Requests per second that the delay allows; None: it sets no limit."""
        return 1 / self.gap if self.gap else None

    @property
    def rate(self) -> float:
        """Fetches per second in the last minute."""
        return self.host.rate(self.now)

    @property
    def robots_until(self) -> datetime | None:
        """Until when its robots.txt is known; None: it is not."""
        until = self.state.robots_until
        return moment(until) if until > self.now else None

    @property
    def robots_wait(self) -> datetime | None:
        """When its robots.txt is tried again, for which requests that obey it wait; None: they do
        not."""
        wait = self.state.robots_wait
        return moment(wait) if wait > self.now and self.robots_until is None else None


def read(hosts: Iterable[Host]) -> list[HostNow]:
    """The state of each host: one round trip to Redis for all together."""
    hosts = [*hosts]
    states = _states([host.name for host in hosts])
    now = time.time()
    live = states is not None
    found = states or {}
    return [HostNow(host, found.get(host.name) or HostState(), live, now) for host in hosts]


def described(now: HostNow) -> dict[str, Any]:
    """Everything about the host, for programs."""
    host, state = now.host, now.state
    return {
        **{name: getattr(host, name) for name in OF_HOST},
        **{name: getattr(state, name) for name in OF_STATE},
        **{name: getattr(now, name) for name in OF_NOW},
        "condition": now.condition.value,
        "why": state.why or host.held_why,
        "rate": round(now.rate, 3),
        "allowed": None if now.allowed is None else round(now.allowed, 3),
        "adaptive": state.gap is not None,
        "concurrency_in_force": state.concurrency,
        "block_window": state.pages,
        "rules": host.gates,
        "ordered_by": host.ordered_by.get_username() if host.ordered_by else None,
    }


def tasks_of(host: Host) -> dict[int, int]:
    """Tasks that have ready requests of the host, and how many; empty if Redis is unreachable."""
    try:
        return frontier().hosts.tasks(host.name)
    except (RedisError, CrawlframeError):
        return {}


def moment(seconds: float) -> datetime | None:
    """An instant of the frontier; None if it never comes."""
    if math.isinf(seconds) or not 0 < seconds < LAST:
        return None
    return datetime.fromtimestamp(seconds, UTC)


def _states(names: list[str]) -> dict[str, HostState] | None:
    if not names:
        return {}
    try:
        return frontier().hosts.states(names)
    except (RedisError, CrawlframeError):
        return None
