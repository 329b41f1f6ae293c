"""Idle hosts: rows that only say what was fetched long ago. They are looked for a part of the table
at a time, in the order of their numbers: an index on the last fetch would make every batch of
statistics dearer."""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.db.models import Q, QuerySet
from django.db.models.functions import Coalesce, Now

from crawlframe.frontier import Frontier
from crawlframe.frontier.hosts import HostState
from crawlservice.models import HELD, ORDERED, UNSENT, Host

ROWS = 5_000  # looked at in one call


class IdleHosts:
    """Each call returns the rows to delete of the next part of the table; after the last part it
    begins anew. Raises redis.RedisError, EraChanged and django.db.Error."""

    def __init__(self, frontier: Frontier) -> None:
        self._frontier = frontier
        self._after = 0

    def __call__(self) -> QuerySet[Host]:
        """Hosts that were not fetched for CRAWLFRAME_KEEP_HOSTS days, have no order, are not held,
        and of which the frontier knows nothing."""
        if not settings.KEEP_HOSTS:
            return Host.objects.none()
        part = Host.objects.filter(pk__gt=self._after).order_by("pk")
        numbers = [*part.values_list("pk", flat=True)[:ROWS]]
        self._after = numbers[-1] if len(numbers) == ROWS else 0
        idle = _idle().filter(pk__in=numbers)
        names = {name: pk for pk, name in idle.values_list("pk", "name")}
        known = self._frontier.hosts.states([*names])
        unknown = [pk for name, pk in names.items() if known[name] == HostState()]
        return _idle().filter(pk__in=unknown).order_by("pk")


def _idle() -> QuerySet[Host]:
    last = Coalesce("last_at", "first_at")
    rows = Host.objects.alias(last=last).filter(
        last__lt=Now() - timedelta(days=settings.KEEP_HOSTS)
    )
    return rows.exclude(ORDERED | HELD | UNSENT | Q(paused=True))
