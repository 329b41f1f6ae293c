"""Lives: how the lives of nodes began and ended. Kept in the database, so that a node that died is
shown until it comes back or is forgotten, whatever happens to Redis."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from crawlframe.base.program import command
from crawlservice.connections import database
from crawlservice.connections.contained import contained
from crawlservice.connections.lookup import NotFound
from crawlservice.models import Event, Generation

log = logging.getLogger(__name__)

MAX_NODES = 200  # most offline nodes shown, the latest ones
Fate = Generation.Fate


def begin(
    node: str, machine: str, pid: int, *, once: bool = False, beside: Collection[int] = ()
) -> int:
    """Records a new life of a node and returns its number. It replaces the earlier lives, except
    of the processes ``beside`` (pids on the same machine): these continue until they leave or die,
    because the new life may be refused. If the node was offline, it is back, which is one event.
    ``once``: it ends when no task is left, so its death is not reported. Raises django.db.Error."""
    with transaction.atomic():
        life = Generation.objects.create(node=node, machine=machine, pid=pid, once=once)
        _lock(node)
        earlier = Generation.objects.filter(node=node, pk__lt=life.pk).order_by()
        replaced = earlier.filter(fate=Fate.ALIVE).exclude(machine=machine, pid__in=beside)
        replaced.update(fate=Fate.REPLACED, ended_at=Now())
        if earlier.filter(offline=True).update(offline=False):
            _record_event(Event.Kind.NODE_BACK, life)
    return life.pk


def leave(generation: int) -> None:
    """Records that the node was asked to stop, and has stopped. Raises django.db.Error."""
    Generation.objects.filter(pk=generation, fate=Fate.ALIVE).update(fate=Fate.LEFT, ended_at=Now())


def die(generation: int, held: int) -> bool:
    """Records that the life ended without leaving; ``held`` requests are released. Returns whether
    its node is offline now, which is one event, however many report it; it is not while another
    life of the node continues. Raises django.db.Error."""
    with transaction.atomic():
        life = Generation.objects.filter(pk=generation).first()
        if life is None:
            return False
        _lock(life.node)
        row = Generation.objects.filter(pk=generation, fate__in=(Fate.ALIVE, Fate.UNKNOWN))
        if not row.update(fate=Fate.DIED, ended_at=Now(), given_back=held):
            return False
        life.given_back = held
        others = Generation.objects.filter(node=life.node)
        # For nodes that started before fates were recorded, the surviving life is unknown.
        unknown = life.fate == Fate.UNKNOWN
        others = others.filter(pk__gt=generation) if unknown else others.filter(fate=Fate.ALIVE)
        if life.once or others.exists():
            return False
        Generation.objects.filter(pk=generation).update(offline=True)
        _record_event(Event.Kind.NODE_OFFLINE, life)
    log.warning("node %s is offline; it held %d requests", life.node, held)
    return True


def offline() -> list[Generation]:
    """The last lives of offline nodes, the latest MAX_NODES. Raises django.db.Error."""
    return [*_offline().order_by("-pk")[:MAX_NODES]] if database.is_there() else []


def forget(node: str) -> None:
    """Removes the offline node from the list. Raises NotFound and django.db.Error."""
    if not _offline().filter(node=node).update(offline=False):
        raise NotFound(
            "node",
            f"no node {node!r} is offline; list them: {command('node list')}. A running node is "
            "stopped, not forgotten",
        )


def forget_old() -> int:
    """Forgets nodes that have been offline for CRAWLFRAME_KEEP_NODES days; returns how many.
    Raises django.db.Error."""
    if not settings.KEEP_NODES:
        return 0
    old = Now() - timedelta(days=settings.KEEP_NODES)
    return _offline().filter(ended_at__lt=old).update(offline=False)


class LivesMonitor:
    """Finds lives whose end Redis could not report: it was emptied, or their deaths were not
    recorded. ``lease``: seconds that a life must be missing."""

    def __init__(self, lease: float) -> None:
        self._lease = lease
        self._missing: dict[int, float] = {}

    def tick(self, known: Collection[int]) -> None:
        """``known``: generations that have a lease. Raises django.db.Error."""
        now, before = time.monotonic(), self._missing
        rows = Generation.objects.filter(fate=Fate.ALIVE).order_by()
        missing = {*rows.values_list("pk", flat=True)} - {*known}
        self._missing = {life: before.get(life, now) for life in missing}
        for life, since in self._missing.items():
            if now - since > self._lease:
                with contained(f"generation {life}"):
                    die(life, 0)


def _lock(node: str) -> None:
    """Locks the lives of this node until the transaction ends. Of two lives that die at the same
    time, the second counts as the last."""
    lives = Generation.objects.filter(node=node, fate=Fate.ALIVE).order_by("pk")
    list(lives.select_for_update().values_list("pk"))


def _offline() -> QuerySet[Generation]:
    return Generation.objects.filter(offline=True)


def _record_event(kind: Event.Kind, life: Generation) -> None:
    detail: dict[str, Any] = {
        "generation": life.pk,
        "machine": life.machine,
        "pid": life.pid,
        "given_back": life.given_back,
    }
    Event.objects.create(kind=kind, node=life.node, detail=detail)
