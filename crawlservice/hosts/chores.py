"""Chores of hosts: their orders, and held hosts.

Held hosts block, or have asked for a wait of more than an hour. The leading steward records them as
the frontier has them, and makes an event of each change.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from django.db import transaction

from crawlframe.frontier import Frontier
from crawlservice.chores.chore import Calls, Chore
from crawlservice.connections import clock
from crawlservice.connections.contained import contained
from crawlservice.hosts.orders import keep
from crawlservice.hosts.states import moment
from crawlservice.models import HELD, HOST, ORDERED, UNSENT, Event, Host, Task

log = logging.getLogger(__name__)
PAUSED = "paused"  # by an operator: no event is needed
REASONS = {
    "blocked": "more than half of its last pages were blocks",
    "asked": "it has asked for a wait of more than an hour",
}


def look_after(frontier: Frontier) -> None:
    """Ends orders whose time is over, sends Redis the orders that it missed, and records the held
    hosts. Raises redis.RedisError, FrontierError and django.db.Error."""
    keep(frontier)
    record_held(frontier)


CHORES = (
    Chore(
        "hosts",
        lambda steward: Calls(lambda: look_after(steward.frontier)),
        # Hosts begin to be held while a task is active.
        used=lambda: [
            *map(Host.objects.filter, (HELD, ORDERED, UNSENT)),
            Task.objects.filter(state__in=Task.ACTIVE),
        ],
    ),
)


def record_held(frontier: Frontier) -> None:
    """A round of the leading steward. Raises redis.RedisError, FrontierError and
    django.db.Error."""
    found = {name: of for name, of in frontier.hosts.held().items() if len(name) <= HOST}
    recorded = {host.name: host for host in Host.objects.filter(HELD)}
    for name, (why, until) in found.items():
        if why == PAUSED:
            continue
        fields = {"held_why": why[:20], "held_until": moment(until)}
        host = recorded.get(name)
        with contained(f"host {name}"):
            if host is None:
                _begin(name, fields)
            elif any(getattr(host, field) != value for field, value in fields.items()):
                Host.objects.filter(HELD, pk=host.pk).update(**fields)
    for name, host in recorded.items():
        if name not in found:
            with contained(f"host {name}"):
                _end(host)


def _begin(name: str, fields: Mapping[str, Any]) -> None:
    with transaction.atomic():
        Host.objects.get_or_create(name=name)
        rows = Host.objects.filter(name=name, held_why="")
        if not rows.update(held_since=clock.now(), **fields):
            return  # another steward was faster
        until = fields["held_until"]
        detail = {"why": fields["held_why"], "until": until and until.isoformat()}
        reason = REASONS.get(fields["held_why"], fields["held_why"])
        Event.objects.create(kind=Event.Kind.HOST_HELD, host=name, reason=reason, detail=detail)
    log.warning("host %s is held: %s", name, reason)


def _end(host: Host) -> None:
    with transaction.atomic():
        rows = Host.objects.filter(HELD, pk=host.pk)
        if not rows.update(held_why="", held_since=None, held_until=None):
            return
        since = host.held_since and host.held_since.isoformat()
        detail = {"why": host.held_why, "since": since}
        Event.objects.create(kind=Event.Kind.HOST_RESUMED, host=host.name, detail=detail)
    log.info("host %s continues", host.name)
