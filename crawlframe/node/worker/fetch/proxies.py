"""Proxying: the stage that finds the proxy of a claimed request; ProxySource: where the requests of
a worker get their proxies."""

from __future__ import annotations

import random
import time

from crawlframe.errors import ConfigError
from crawlframe.frontier.client.records import BLOCKED, Claimed
from crawlframe.node.worker.commit.stores import Stores
from crawlframe.node.worker.crawl.stage import ClaimedFetch, Next, NoResponse
from crawlframe.proxies.place import is_pool, place_of, route_in, selector_in
from crawlframe.proxies.proxy import ChosenProxy, fixed_proxy
from crawlframe.proxies.selector import matches
from crawlframe.response.response import Response
from crawlframe.run.ledger import StoredProxy
from crawlframe.run.outcome import Outcome, Verdict

UNKNOWN_PAUSE = 1000  # milliseconds that a request waits whose proxy is not known any more
UNREADABLE_PAUSE = 30_000  # the same if this node cannot read the credentials of its proxy
READ_SECONDS = 5.0  # seconds between two reads of a pool that is used
ASK_AGAIN = 1.0  # seconds until it is read again for a proxy that it does not have


class ProxySource:
    """Reads the pool from the database at first use, and then again and again."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._known: dict[int, StoredProxy] = {}
        self._read_at = float("-inf")

    async def of(self, claimed: Claimed) -> ChosenProxy | None:
        """The proxy of a claimed request whose place has a route; None if it is not known any
        more. Raises ConfigError if this node cannot read its credentials."""
        if claimed.proxy:
            return await self.find(claimed.proxy)
        route = route_in(claimed.host)
        return None if not route or is_pool(selector_in(route)) else fixed_proxy(route)

    async def for_route(self, route: str) -> ChosenProxy | None:
        """A proxy for a fetch outside of the queue; None if there is none now."""
        choice = selector_in(route)
        return await self.any_of(choice) if is_pool(choice) else fixed_proxy(route)

    async def find(self, proxy: int) -> ChosenProxy | None:
        """The proxy of the pool with this id. Raises ConfigError if this node cannot read the
        credentials of the pool."""
        if proxy not in self._known and time.monotonic() - self._read_at > ASK_AGAIN:
            await self._load()
        found = self._known.get(proxy)
        return None if found is None else found.proxy

    async def any_of(self, choice: str) -> ChosenProxy | None:
        """A random proxy of the pool that a choice allows. Raises ConfigError as ``find`` does."""
        if not self._known and time.monotonic() - self._read_at > ASK_AGAIN:
            await self._load()
        fits = [
            one for one in self._known.values() if matches(choice, one.tier, one.country, one.tags)
        ]
        tier = min((one.tier for one in fits), default=0)
        cheapest = [one.proxy for one in fits if one.tier == tier]
        return random.choice(cheapest) if cheapest else None

    async def watch(self) -> None:
        """Follows the changes of a pool that is used, until it is cancelled."""
        read = self._stores.ledger.access.proxies
        await self._stores.follow(READ_SECONDS, lambda: self._known, read, self._take, "proxies")

    async def _load(self) -> None:
        self._take(await self._stores.ask(self._stores.ledger.access.proxies))

    def _take(self, proxies: list[StoredProxy]) -> None:
        self._known = {one.proxy.id: one for one in proxies}
        self._read_at = time.monotonic()


class Proxying:
    """A stage: each claimed request goes through the proxy of its place. Of one worker."""

    def __init__(self, source: ProxySource) -> None:
        self._source = source

    async def fetch(self, fetch: ClaimedFetch, call_next: Next[ClaimedFetch]) -> Response:
        """Raises NoResponse if it must not be sent now, and BadRequest as ``TaskCrawl.route``."""
        outcome, crawl, request = fetch.outcome, fetch.crawl, fetch.request
        route = crawl.route(request) if outcome.side_trip is None else outcome.route
        await self._find_way(outcome, fetch.claimed, route)
        fetch.proxy = outcome.fetch.via
        try:
            return await call_next(fetch)
        finally:
            # After a block, a session that goes through the pool loses its cookies, as it loses its
            # proxy in the frontier.
            session = request.options.session
            if (
                session
                and outcome.fetch.signal[0] == BLOCKED
                and outcome.fetch.via
                and outcome.fetch.via.of_pool
            ):
                crawl.cookies.forget(session)

    async def _find_way(self, outcome: Outcome, claimed: Claimed, route: str) -> None:
        """Raises NoResponse: the request goes to the place of ``route``, if its spider has another
        one than when it was queued, or waits."""
        if route != outcome.route:
            outcome.target = place_of(outcome.host, route)
            outcome.end(Verdict.REDIRECT)
            raise NoResponse
        if not route:
            return
        try:
            outcome.fetch.via = await self._source.of(claimed)
        except ConfigError as error:
            outcome.end(Verdict.DEFER, "proxy", str(error), UNREADABLE_PAUSE)
            raise NoResponse from None
        if outcome.fetch.via is None:
            outcome.end(Verdict.DEFER, "proxy", f"proxy {claimed.proxy} is gone", UNKNOWN_PAUSE)
            raise NoResponse
