"""Lacking: why requests wait for a proxy that there is not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from crawlframe.frontier import Frontier
from crawlframe.frontier.proxies import PairState
from crawlframe.proxies.place import host_in, route_in, selector_in
from crawlframe.proxies.selector import matches
from crawlservice.connections import clock
from crawlservice.models import Proxy

MAX_PLACES = 200  # places that are looked at

Cause = Literal["empty", "unfit", "disabled", "unchecked", "failed", "blocked", "resting"]


class Missing(NamedTuple):
    """Requests of ``host`` that wait for a proxy of ``choice``. ``until``: seconds since the epoch
    at which the first one may be used again, 0: nobody knows. ``proxies``: how many the choice
    allows. Instants are by the clock of the database, but ``since``, which is by that of Redis."""

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
    """What waits for a proxy now; ``host``: only there; ``task``: only of this one. Raises
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
