"""Installation: the id that a database and its Redis share, so that two clusters never mix their
requests in one Redis; and a check value of the secret key that all its processes share."""

from __future__ import annotations

import logging
from uuid import uuid4

from django.conf import settings
from django.db import connection, transaction
from redis.exceptions import LockError

from crawlframe.base import processes
from crawlframe.base.program import command
from crawlframe.errors import FrontierError
from crawlframe.frontier import Frontier
from crawlframe.frontier.client.keys import OWN_AFFAIRS
from crawlservice.connections import database
from crawlservice.models import Era, Installation, Webhook
from crawlservice.security.sealing import SealError, seal, unseal

log = logging.getLogger(__name__)

KEY_CHECK = "the key of this installation"  # the text that the check value encrypts
TAKEOVER_TIME = 60.0  # seconds that a take-over of Redis may last


class OtherInstallation(FrontierError):
    """Redis belongs to the database of another installation."""


def of_database() -> str:
    """The id of this database; the first call makes it. "" while there is no database. Raises
    django.db.Error."""
    if not database.is_there():
        return ""
    row = Installation.objects.first()
    if row is None and connection.in_atomic_block:
        return ""  # a row that is made here may be rolled back
    if row is None:
        Installation.objects.bulk_create([Installation()], ignore_conflicts=True)
        row = Installation.objects.get()
    return str(row.uuid)


def check(frontier: Frontier, known: str = "") -> str:
    """Returns the id of this database. A Redis that belongs to no database is assigned to it.
    ``known``: the id returned before; while Redis agrees, the database is not queried.

    Raises OtherInstallation, redis.RedisError and django.db.Error."""
    theirs = frontier.eras.installation()
    if theirs and theirs == known:
        return known
    mine = of_database()
    if not mine:
        return ""
    theirs = theirs or frontier.eras.belong_to(mine)
    if theirs != mine:
        if settings.REDIS_URL or living(frontier):
            raise OtherInstallation(_refusal(frontier, mine, theirs))
        # The private Redis of this directory, whose database was deleted or replaced.
        take_over(frontier)
    return mine


def check_key() -> str:
    """Why the secrets of this database cannot be read with our SECRET_KEY; "" if they can. The
    first call stores a check value. Raises django.db.Error."""
    if not of_database():
        return ""
    ours = Installation.objects.get()
    secrets = Webhook.objects.order_by("pk").values_list("sealed_secret", flat=True)
    sealed = ours.key_check or secrets.first() or ""
    try:
        unseal(sealed)
    except SealError:
        return (
            "CRAWLFRAME_SECRET_KEY here is not the one this database was first used with, so "
            "stored secrets cannot be read: give the web and all nodes the same one. If it was "
            "changed, name the former one in CRAWLFRAME_SECRET_KEY_FALLBACKS and run: "
            f"{command('store reseal')}"
        )
    Installation.objects.filter(key_check="").update(key_check=seal(KEY_CHECK))
    return ""


def keep_key() -> None:
    """Records our SECRET_KEY as this database's key. Raises django.db.Error."""
    Installation.objects.update(key_check=seal(KEY_CHECK))


def living(frontier: Frontier) -> list[str]:
    """The names of nodes that live on this Redis, of any installation."""
    infos = {info.generation: info for info in frontier.leases.nodes()}
    here, found = processes.place(), []
    for generation, left in frontier.leases.left().items():
        info = infos.get(generation)
        dead = info and info.place == here and not processes.runs(info.pid, info.born)
        if left > 0 and not dead:
            found.append(info.node if info else f"generation {generation}")
    return sorted(found)


def take_over(frontier: Frontier) -> str:
    """Makes Redis belong to this database: its data is dropped, and a new era starts, for which
    stewards fill it from this database. Can be repeated if it was interrupted. Returns the former
    id of Redis.

    Raises OtherInstallation while nodes live on it, redis.RedisError and django.db.Error."""
    name = f"{frontier.store.keys[0].prefix}:steward"
    lock = frontier.store.redis.lock(name, timeout=TAKEOVER_TIME, blocking_timeout=TAKEOVER_TIME)
    try:
        with lock:
            return _take_over(frontier)
    except LockError as error:
        raise FrontierError(f"Redis could not be taken over: {error}; try again") from None


def _take_over(frontier: Frontier) -> str:
    mine, theirs = of_database(), frontier.eras.installation()
    if theirs == mine:
        return theirs
    others = theirs or "unknown"
    if nodes := living(frontier):
        raise OtherInstallation(
            f"nodes of installation {others} live on this Redis ({', '.join(nodes)}); "
            "stop them first, or name another Redis in REDIS_URL"
        )
    numbers = [era.number for era in frontier.eras.read()]
    last = Era.objects.values_list("number", flat=True).first() or 0
    reason = f"Redis was taken over from installation {others}"
    era = Era.objects.create(number=max(last, *numbers) + 1, reason=reason)
    frontier.eras.begin(era.number)  # nothing writes for the previous era any more
    frontier.eras.wipe(keep=OWN_AFFAIRS)
    frontier.eras.belong_to(mine, instead=True)
    log.warning("%s to %s; it is filled from the database", reason, mine)
    return theirs


def renew(frontier: Frontier) -> tuple[str, str]:
    """Gives this database another id, as a copy needs one; returns the old and the new id. Raises
    as ``check_renewable`` does."""
    check_renewable(frontier)
    with transaction.atomic():
        before, after = of_database(), uuid4()
        Installation.objects.update_or_create(pk=1, defaults={"uuid": after})
    return before, str(after)


def check_renewable(frontier: Frontier) -> None:
    """Raises OtherInstallation while nodes live on the Redis that has this database's id: then this
    is the original, or a copy that still uses the original's Redis. Raises redis.RedisError and
    django.db.Error."""
    if of_database() == frontier.eras.installation() and (nodes := living(frontier)):
        raise OtherInstallation(
            f"this database and Redis have the same installation id, and nodes live there "
            f"({', '.join(nodes)}): nothing was changed. If this database is the copy of another, "
            "first give it a CRAWLFRAME_KEY_PREFIX or a REDIS_URL of its own; if it is not, it "
            "needs no other id"
        )


def _refusal(frontier: Frontier, mine: str, theirs: str) -> str:
    prefix = frontier.store.keys[0].prefix
    return (
        f"Redis with the key prefix {prefix!r} belongs to installation {theirs}, and this database "
        f"is installation {mine}: give this one a CRAWLFRAME_KEY_PREFIX or a Redis database "
        "(REDIS_URL) of its own; or, if the database of that installation is gone, run: "
        f"{command('store take-over')}"
    )
