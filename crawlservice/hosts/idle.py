"""Idle rows: hosts and robots.txt without use for a long time. They are looked for a part of the
table at a time, in the order of their numbers: an index on the time would make every batch of
statistics dearer."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db.models import Model, Q, QuerySet
from django.db.models.functions import Coalesce, Now

from crawlframe.frontier import Frontier
from crawlframe.frontier.hosts import HostState
from crawlservice.models import HELD, ORDERED, UNSENT, Host, RobotsFile, Task

ROWS = 5_000  # looked at in one call
TIMES = ("read_at", "known_until", "next_try", "lease_until")  # of a robots.txt


class IdleHosts:
    """Each call returns the rows to delete of the next part of the table; after the last part it
    starts anew. Raises redis.RedisError, EraChanged and django.db.Error."""

    def __init__(self, frontier: Frontier) -> None:
        self._frontier = frontier
        self._walk = Walk(Host)

    def __call__(self) -> QuerySet[Host]:
        """Hosts that were not fetched for CRAWLFRAME_KEEP_HOSTS days, have no order, are not held,
        and are unknown to the frontier. While very many requests wait, there are none."""
        if not settings.KEEP_HOSTS:
            return Host.objects.none()
        idle = _idle().filter(pk__in=self._walk.next())
        names = {name: pk for pk, name in idle.values_list("pk", "name")}
        known = self._frontier.hosts.states([*names])
        unknown = {name for name in names if known[name] == HostState()}
        if unknown:
            paused = Task.objects.filter(state=Task.State.PAUSED).values_list("pk", flat=True)
            waiting = self._frontier.hosts.waiting(unknown, paused)
            unknown = set() if waiting is None else unknown - waiting
        return _idle().filter(pk__in=[names[name] for name in unknown]).order_by("pk")


class IdleRobots:
    """The same for robots.txt. Raises django.db.Error."""

    def __init__(self) -> None:
        self._walk = Walk(RobotsFile)

    def __call__(self) -> QuerySet[RobotsFile]:
        """Files that were not needed for CRAWLFRAME_KEEP_HOSTS days: they would have been read
        again."""
        if not settings.KEEP_HOSTS:
            return RobotsFile.objects.none()
        rows = RobotsFile.objects.filter(pk__in=self._walk.next())
        for name in TIMES:
            rows = rows.filter(Q(**{name: None}) | Q(**{f"{name}__lt": _long_ago()}))
        return rows.order_by("pk")


class Walk:
    """The numbers of the rows of a table, a part at a time; after the last part it starts anew."""

    def __init__(self, model: type[Model]) -> None:
        self._rows = model._default_manager.order_by("pk")
        self._after = 0

    def next(self) -> list[int]:
        """The next numbers, at most ROWS. Raises django.db.Error."""
        part = self._rows.filter(pk__gt=self._after)
        numbers = [*part.values_list("pk", flat=True)[:ROWS]]
        self._after = numbers[-1] if len(numbers) == ROWS else 0
        return numbers


def _idle() -> QuerySet[Host]:
    last = Coalesce("last_at", "first_at")
    rows = Host.objects.alias(last=last).filter(last__lt=_long_ago())
    return rows.exclude(ORDERED | HELD | UNSENT | Q(paused=True))


def _long_ago() -> Any:
    return Now() - timedelta(days=settings.KEEP_HOSTS)
