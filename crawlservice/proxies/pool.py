"""The pool: which proxies of the database may be used, with their credentials, and what is
published of them in the frontier."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from typing import Any

from django.db import DatabaseError

from crawlframe.base.secret import Secret
from crawlframe.frontier import Frontier
from crawlframe.frontier.proxies import PooledProxy
from crawlframe.proxies.choice import check_address, matches
from crawlframe.proxies.proxy import ChosenProxy
from crawlframe.proxies.proxy import ChosenProxy as Usable
from crawlframe.run.ledger import StoredProxy
from crawlservice.models import Proxy
from crawlservice.security.sealing import unseal

FIELDS = ("pk", "max_concurrency", "life", "tier", "country", "tags")


def usable_rows() -> Any:
    """The proxies that may be used now."""
    return Proxy.objects.filter(enabled=True, state=Proxy.State.WORKING).order_by("pk")


def pooled() -> list[PooledProxy]:
    """What is published. Raises django.db.Error."""
    return [
        PooledProxy(pk, most, life, tier, country, tuple(tags.split()))
        for pk, most, life, tier, country, tags in usable_rows().values_list(*FIELDS)
    ]


def version_of(proxies: list[PooledProxy]) -> str:
    """Names this state of the pool."""
    return hashlib.blake2b(repr(proxies).encode(), digest_size=12).hexdigest()


def publish(frontier: Frontier) -> None:
    """Publishes what has changed, also after the frontier has lost the pool. Raises
    django.db.Error, FrontierError and redis.RedisError."""
    proxies = pooled()
    if not proxies and not any(frontier.proxies.versions()):
        return  # most projects have none
    frontier.proxies.publish(version_of(proxies), proxies)


class StoredProxies:
    """Reads the pool again and again; what has not changed is not unsealed again."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[tuple[Any, ...], StoredProxy]] = {}

    def read(self) -> list[StoredProxy]:
        """Raises django.db.Error, and SealError for what cannot be read."""
        found: dict[int, tuple[tuple[Any, ...], StoredProxy]] = {}
        columns = ("pk", "url", "sealed_login", "tier", "country", "tags", "named_by")
        for row in usable_rows().values_list(*columns):
            known = self._known.get(row[0])
            found[row[0]] = known if known and known[0] == row else (row, _stored(*row))
        self._known = found
        return [proxy for _, proxy in found.values()]


def usable(pk: int, url: str, sealed_login: str, named_by: int = 0) -> Usable:
    """The proxy with its credentials. Raises SealError."""
    user, _, password = unseal(sealed_login).partition(":")
    return Usable(pk, *check_address(url), user, Secret(password), found=named_by > 0)


def _stored(
    pk: int, url: str, sealed_login: str, tier: int, country: str, tags: str, named_by: int
) -> StoredProxy:
    proxy = usable(pk, url, sealed_login, named_by)
    return StoredProxy(proxy, tier, country, tuple(tags.split()))


def pool_here() -> Callable[[str], ChosenProxy | None]:
    """A function that returns one of the proxies that a choice allows, by chance; None if the pool
    has none, or if the database cannot be read. Raises SealError."""
    try:
        known = StoredProxies().read()
    except DatabaseError:
        known = []

    def pick(choice: str) -> ChosenProxy | None:
        fits = [one.proxy for one in known if matches(choice, one.tier, one.country, one.tags)]
        return random.choice(fits) if fits else None

    return pick
