"""TdmGuard: asks the tdmrep.json of an origin, for spiders with a purpose. It is read like
robots.txt, and after it. Its row is next to the row of robots.txt, under the URL of the file."""

from __future__ import annotations

import asyncio

from crawlframe.node.worker.crawl.stage import F, Next
from crawlframe.node.worker.robots.guard import (
    RECHECK,
    LoadedValue,
    Reader,
    RobotsCheck,
    RobotsGuard,
    SiteRules,
)
from crawlframe.node.worker.robots.site_files import Wait
from crawlframe.response.response import Response
from crawlframe.robots.state import RobotsState
from crawlframe.robots.tdmrep import NO_TDM_RULES, PATH, TdmRules


class TdmGuard(SiteRules[tuple[str, int], TdmRules]):
    """The tdmrep.json files of all origins, for one worker; a stage inside ``robots``, whose store
    and files are used."""

    path = PATH

    def __init__(self, robots: RobotsGuard) -> None:
        super().__init__(robots.store, robots.files, robots.clock, NO_TDM_RULES)
        self._robots = robots

    async def fetch(self, fetch: F, call_next: Next[F]) -> Response:
        """Checks each URL of the fetch before it is sent. Raises errors of ``rules_for``."""
        assert isinstance(fetch.check, RobotsCheck)
        fetch.check = check = TdmCheck(self, fetch.check)
        response = await call_next(fetch)
        response.reservation = check.rules.find(response.url)
        return response

    def _key(self, origin: str, reader: Reader) -> tuple[str, int]:
        return origin, self._robots.forgotten

    async def _known(
        self, url: str, reader: Reader, state: RobotsState, now: float, fresh: bool
    ) -> LoadedValue[TdmRules]:
        rules = await asyncio.to_thread(TdmRules, state.text) if state.text else NO_TDM_RULES
        left = min(RECHECK, state.known_until - now)
        return LoadedValue(rules, left, Wait(url) if fresh else None)


class TdmCheck:
    """Checks the URLs that are sent for one request, after its RobotsCheck. ``rules`` are the rules
    of the last URL."""

    def __init__(self, guard: TdmGuard, robots: RobotsCheck) -> None:
        self.rules = NO_TDM_RULES
        self._guard = guard
        self._robots = robots

    async def __call__(self, url: str) -> None:
        """Raises errors of RobotsCheck and ``TdmGuard.rules_for``."""
        await self._robots(url)
        self.rules = await self._guard.rules_for(url, self._robots.reader)
