"""The pool: the usable proxies of the database, with their credentials, and their entries in the
frontier."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

from django.db import DatabaseError

from crawlframe.base.secret import Secret
from crawlframe.frontier import Frontier
from crawlframe.frontier.proxies import PairState, PooledProxy
from crawlframe.proxies.place import host_in, route_in, selector_in
from crawlframe.proxies.proxy import ChosenProxy
from crawlframe.proxies.selector import check_address, matches
from crawlframe.run.ledger import StoredProxy
from crawlservice.connections import clock
from crawlservice.models import Proxy
from crawlservice.security.sealing import unseal

MAX_PLACES = 200  # places that are looked at
Cause = Literal["empty", "unfit", "disabled", "unchecked", "failed", "blocked", "resting"]
FIELDS = ("pk", "max_concurrency", "life", "tier", "country", "tags")


def usable_rows() -> Any:
    """The proxies that may be used now."""
    return Proxy.objects.filter(enabled=True, state=Proxy.State.WORKING).order_by("pk")


def pooled() -> list[PooledProxy]:
    """The published proxies. Raises django.db.Error."""
    return [
        PooledProxy(pk, most, life, tier, country, tuple(tags.split()))
        for pk, most, life, tier, country, tags in usable_rows().values_list(*FIELDS)
    ]


def version_of(proxies: list[PooledProxy]) -> str:
    """Names this state of the pool."""
    return hashlib.blake2b(repr(proxies).encode(), digest_size=12).hexdigest()


def publish(frontier: Frontier) -> None:
    """Publishes changes, also after the frontier has lost the pool. Raises django.db.Error,
    FrontierError and redis.RedisError."""
    proxies = pooled()
    if not proxies and not any(frontier.proxies.versions()):
        return  # most projects have none
    frontier.proxies.publish(version_of(proxies), proxies)


class StoredProxies:
    """Reads the pool periodically; unchanged secrets are not unsealed again."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[tuple[Any, ...], StoredProxy]] = {}

    def read(self) -> list[StoredProxy]:
        """The present pool. Raises django.db.Error, and SealError for unreadable secrets."""
        found: dict[int, tuple[tuple[Any, ...], StoredProxy]] = {}
        columns = ("pk", "url", "sealed_login", "tier", "country", "tags", "named_by")
        for row in usable_rows().values_list(*columns):
            known = self._known.get(row[0])
            found[row[0]] = known if known and known[0] == row else (row, _stored(*row))
        self._known = found
        return [proxy for _, proxy in found.values()]


def usable(pk: int, url: str, sealed_login: str, named_by: int = 0) -> ChosenProxy:
    """The proxy with its credentials. Raises SealError."""
    user, _, password = unseal(sealed_login).partition(":")
    return ChosenProxy(pk, *check_address(url), user, Secret(password), found=named_by > 0)


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


class Missing(NamedTuple):
    """Requests of ``host`` that wait for a proxy of ``choice``. ``until``: seconds since the epoch
    at which the first proxy may be used again, 0: unknown. ``proxies``: how many the choice allows.
    Instants are by the clock of the database, but ``since`` by the clock of Redis."""

    host: str
    choice: str
    cause: Cause
    since: float
    until: float
    proxies: int

    @property
    def at_host(self) -> bool:
        """Whether other hosts can be fetched with this choice."""
        return self.cause in ("blocked", "resting")


class _Row(NamedTuple):
    pk: int
    enabled: bool
    state: str
    tier: int
    country: str
    tags: str


def missing(frontier: Frontier, host: str = "", task: int = 0) -> Iterator[Missing]:
    """Requests that wait for a proxy now; ``host``, ``task``: only of these. Raises
    redis.RedisError and django.db.Error."""
    lacks = [
        one
        for one in frontier.proxies.lacking(MAX_PLACES)
        if (not host or host_in(one.place) == host) and (not task or task in one.tasks)
    ]
    if not lacks:
        return
    rows = [_Row(*row) for row in Proxy.objects.order_by("pk").values_list(*_Row._fields)]
    out, now = frontier.proxies.out(), clock.now().timestamp()
    fits: dict[str, list[_Row]] = {}
    for place, since, _ in lacks:
        choice = selector_in(route_in(place))
        if choice not in fits:
            fits[choice] = [
                row for row in rows if matches(choice, row.tier, row.country, row.tags.split())
            ]
        cause, until = _cause(frontier, fits[choice], out, host_in(place), now, bool(rows))
        if cause is not None:
            yield Missing(host_in(place), choice, cause, since, until, len(fits[choice]))


def _cause(
    frontier: Frontier, fits: list[_Row], out: set[int], host: str, now: float, any_: bool
) -> tuple[Cause | None, float]:
    """Why none of these proxies can be used at the host, None if one can."""
    if not fits:
        return "unfit" if any_ else "empty", 0
    enabled = [row for row in fits if row.enabled]
    if not enabled:
        return "disabled", 0
    working = [row.pk for row in enabled if row.state == Proxy.State.WORKING and row.pk not in out]
    if not working:
        new = all(row.state == Proxy.State.NEW for row in enabled)
        return "unchecked" if new else "failed", 0
    resting: list[PairState] = []
    states = frontier.proxies.at(host, working)
    for pk in working:
        state = states.get(pk)
        if state is None or state.resting_until <= now:
            return None, 0
        resting.append(state)
    until = min(state.resting_until for state in resting)
    return "blocked" if all(one.why == "blocked" for one in resting) else "resting", until
