"""ProxySource: where the requests of a worker get their proxies. It follows the changes of the
pool."""

from __future__ import annotations

import random
import time

from crawlframe.frontier.client.records import Claimed
from crawlframe.node.worker.commit.stores import Stores
from crawlframe.proxies.place import is_pool, route_in, selector_in
from crawlframe.proxies.proxy import ChosenProxy, fixed_proxy
from crawlframe.proxies.selector import matches
from crawlframe.run.ledger import StoredProxy

READ_SECONDS = 5.0  # seconds between two reads of a pool that is used
ASK_AGAIN = 1.0  # seconds until it is read again for a proxy that it does not have


class ProxySource:
    """Reads the database at first use, and then again and again."""

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
