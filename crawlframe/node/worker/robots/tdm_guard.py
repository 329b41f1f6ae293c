"""TdmGuard: asks the tdmrep.json of an origin, for spiders with a purpose.

It is read as robots.txt is, and after it: by one worker of the cluster, in the slot of the request
that came first, which then goes back to the head of its lane. Its row is next to that of the
robots.txt, under the URL of the file."""

from __future__ import annotations

import asyncio

from crawlframe.fetch.send_time import SendTime
from crawlframe.links import host_of
from crawlframe.node.worker.robots.guard import RobotsCheck, RobotsGuard
from crawlframe.node.worker.robots.loading_cache import Loaded, LoadingCache
from crawlframe.node.worker.robots.site_files import (
    LEASE,
    MAX_CACHED,
    RECHECK,
    SHORTLY,
    Wait,
    once,
)
from crawlframe.proxies.proxy import Proxy
from crawlframe.record import Errand
from crawlframe.robots.rules import Rules, origin_of
from crawlframe.robots.state import MAX_ORIGIN
from crawlframe.robots.tdmrep import NO_TDM_RULES, PATH, TdmRules


class TdmGuard:
    """The files of all origins, for one worker. Use it from one event loop."""

    def __init__(self, robots: RobotsGuard) -> None:
        """``robots``: whose store, clock and way of reading are used."""
        self._robots = robots
        # By origin, and by how often files were forgotten.
        self._cache: LoadingCache[tuple[str, int], TdmRules] = LoadingCache(
            MAX_CACHED, robots.clock
        )

    async def rules_for(
        self,
        url: str,
        user_agent: str,
        via: str,
        send_time: SendTime | None = None,
        proxy: Proxy | None = None,
        *,
        in_place: bool = False,
    ) -> TdmRules:
        """Returns the rules for a URL. Raises Wait while they are unknown; Elsewhere as
        ``SiteFiles.read`` does; PrivateAddress and BadUrl if no request may be sent there."""
        origin = origin_of(url)
        if len(origin + PATH) > MAX_ORIGIN:  # no such host exists
            return NO_TDM_RULES
        key = (origin, self._robots.forgotten)
        errand = Errand(origin + PATH, origin + PATH, 0, user_agent, via, host_of(url))

        async def load() -> Loaded[TdmRules]:
            return await self._load(url, errand, send_time, proxy, in_place)

        return await once(self._cache, key, url, load)

    async def _load(
        self,
        url: str,
        errand: Errand,
        send_time: SendTime | None,
        proxy: Proxy | None,
        in_place: bool,
    ) -> Loaded[TdmRules]:
        turn = await self._robots.store.turn(errand.file, LEASE)
        if turn.mine:
            turn = await self._robots.files.read(errand, turn, send_time, proxy, in_place=in_place)
        state, now, fresh = turn
        if not state.is_known(now):  # another worker reads it
            raise Wait(url, SHORTLY, shortly=True)
        rules = await asyncio.to_thread(TdmRules, state.text) if state.text else NO_TDM_RULES
        left = min(RECHECK, state.known_until - now)
        return Loaded(rules, left, Wait(url) if fresh else None)


class TdmCheck:
    """Checks each URL that is sent for one request, after its RobotsCheck. ``rules`` and
    ``reservations`` are those of the last one."""

    def __init__(self, robots: RobotsCheck, guard: TdmGuard) -> None:
        self.reservations = NO_TDM_RULES
        self._robots = robots
        self._guard = guard

    @property
    def rules(self) -> Rules:
        return self._robots.rules

    async def __call__(self, url: str) -> None:
        """Raises what RobotsCheck and ``TdmGuard.rules_for`` raise."""
        await self._robots(url)
        robots = self._robots
        self.reservations = await self._guard.rules_for(
            *(url, robots.user_agent, robots.via, robots.send_time, robots.proxy),
            in_place=robots.in_place,
        )
