"""Place: where a request that goes through proxies waits in the frontier, ``<host>|<route>``. It is
claimed like a host; the frontier's ``_proxies.lua`` reads it."""

from __future__ import annotations

from crawlframe.proxies.selector import DIRECT, POOL

MARK = "|"  # no host has it
SHARED = "all;"


def route_of(selector: str, *, shared: bool = False, session: str = "") -> str:
    """The route of a selector; "" without a proxy. ``shared``: the limits of a host hold over all
    proxies of the selector together. ``session``: its requests stay with one proxy."""
    if selector in ("", DIRECT):
        return ""
    if not is_pool(selector):
        return selector
    return f"{SHARED if shared else ''}{selector}{f'#{session}' if session else ''}"


def place_of(host: str, route: str) -> str:
    """The place of a host with this route: the host itself if that is ""."""
    return f"{host}{MARK}{route}" if route else host


def host_in(place: str) -> str:
    """The host of a place; of a host, itself."""
    return place.partition(MARK)[0]


def without_session(place: str) -> str:
    """The place of all sessions of its selector. Sessions of one task mean nothing to another."""
    return place.partition("#")[0]


def route_in(place: str) -> str:
    """The route of a place; "" of a host."""
    return place.partition(MARK)[2]


def selector_in(route: str) -> str:
    """The selector of a route."""
    return route.removeprefix(SHARED).partition("#")[0]


def pair_of(host: str, proxy: int) -> str:
    """The name of a pair, a host and a proxy of the pool, for the frontier's state of it."""
    return f"{host}{MARK}{proxy}"


def limited_at(host: str, route: str, proxy: int) -> str:
    """The name under which the frontier keeps the limits of a host for a fetch of this route
    through this proxy of the pool."""
    return pair_of(host, proxy) if is_pool(route.partition("#")[0]) else place_of(host, route)


def is_pool(selector: str) -> bool:
    """Whether a selector is one of the pool."""
    return selector == POOL or selector.startswith(f"{POOL}:")
