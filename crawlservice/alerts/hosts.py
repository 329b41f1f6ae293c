"""Conditions of hosts: held, or due and not served."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from crawlservice.alerts.finding import MOST, Finding, View
from crawlservice.models import HELD, Host


def held(view: View) -> Iterator[Finding]:
    """Hosts that block, or have asked for a long wait."""
    for host in Host.objects.filter(HELD).order_by("pk")[: MOST + 1]:
        until = host.held_until and host.held_until.isoformat()
        facts = {"host": host.name, "number": host.pk, "why": host.held_why, "until": until}
        since = host.held_since or view.now
        yield Finding("host_held", host.name, since, facts, host=host.name)


def queue_age(view: View) -> Iterator[Finding]:
    """The host whose requests have been due for the longest time. Raises redis.RedisError."""
    oldest = view.frontier.hosts.longest_due()
    if oldest is None:
        return
    host, seconds = oldest
    if seconds >= 60 * view.floor("queue_age"):
        since = view.now - timedelta(seconds=seconds)
        yield Finding("queue_age", "", since, {"host": host}, round(seconds / 60, 1), host=host)
