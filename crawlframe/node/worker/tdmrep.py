"""TdmGuard: asks the tdmrep.json of an origin, for spiders with a purpose.

It is read as robots.txt is, and after it: by one worker of the cluster, in the slot of the request
that came first, which then goes back to the head of its lane. Its row is next to that of the
robots.txt, under the URL of the file."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import NamedTuple

from crawlframe.errors import BadUrl, PrivateAddress
from crawlframe.node.worker.robots import (
    LEASE,
    MAX_CACHED,
    RECHECK,
    SHORTLY,
    RobotsCheck,
    RobotsGuard,
    Wait,
)
from crawlframe.robots.rules import Rules, origin_of
from crawlframe.robots.state import MAX_ORIGIN
from crawlframe.robots.tdmrep import NO_TDM_RULES, PATH, TdmRules, judge_file


class _Known(NamedTuple):
    rules: TdmRules
    until: float  # by the worker's clock
    forgotten: int  # the guard's number when it was read


class TdmGuard:
    """The files of all origins, for one worker. Use it from one event loop."""

    def __init__(self, robots: RobotsGuard) -> None:
        """``robots``: whose store, clock and downloader are used."""
        self._robots = robots
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._loading: dict[str, asyncio.Future[TdmRules]] = {}

    async def rules_for(self, url: str, user_agent: str, via: str) -> TdmRules:
        """Returns the rules for a URL. Raises Wait while they are unknown; PrivateAddress and
        BadUrl if no request may be sent there."""
        origin = origin_of(url)
        if len(origin + PATH) > MAX_ORIGIN:  # no such host exists
            return NO_TDM_RULES
        known = self._known.get(origin)
        if known is not None and (
            known.until > self._robots.clock() and known.forgotten == self._robots.forgotten
        ):
            self._known.move_to_end(origin)
            return known.rules
        loading = self._loading.get(origin)
        if loading is None:
            loading = asyncio.ensure_future(self._load(url, origin, user_agent, via))
            self._loading[origin] = loading
            loading.add_done_callback(lambda done: self._loaded(origin, done))
        return await asyncio.shield(loading)

    def _loaded(self, origin: str, done: asyncio.Future[TdmRules]) -> None:
        self._loading.pop(origin, None)
        if not done.cancelled():
            done.exception()  # whoever waited for it has it

    async def _load(self, url: str, origin: str, user_agent: str, via: str) -> TdmRules:
        store, forgotten = self._robots.store, self._robots.forgotten
        turn = await store.turn(origin + PATH, LEASE)
        state = turn.state
        if turn.mine:
            try:
                got = await self._robots.read_file(origin, PATH, user_agent, via)
            except (PrivateAddress, BadUrl):
                await store.save(origin + PATH, state)
                raise
            state = judge_file(got, turn.now)
            await store.save(origin + PATH, state)
        if not state.is_known(turn.now):  # another worker reads it
            raise Wait(url, SHORTLY, shortly=True)
        rules = await asyncio.to_thread(TdmRules, state.text) if state.text else NO_TDM_RULES
        until = self._robots.clock() + min(RECHECK, state.known_until - turn.now)
        self._known[origin] = _Known(rules, until, forgotten)
        if len(self._known) > MAX_CACHED:
            self._known.popitem(last=False)
        if turn.mine:
            raise Wait(url)
        return rules


class TdmCheck:
    """Checks each URL that is sent for one request, after its RobotsCheck. ``rules`` and
    ``reservations`` are those of the last one."""

    def __init__(self, robots: RobotsCheck, guard: TdmGuard, via: str) -> None:
        self.reservations = NO_TDM_RULES
        self._robots = robots
        self._guard = guard
        self._via = via

    @property
    def rules(self) -> Rules:
        return self._robots.rules

    async def __call__(self, url: str) -> None:
        """Raises what RobotsCheck and ``TdmGuard.rules_for`` raise."""
        await self._robots(url)
        self.reservations = await self._guard.rules_for(url, self._robots.user_agent, self._via)
