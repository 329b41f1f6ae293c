"""Proxying: the stage that finds the proxy of a claimed request."""

from __future__ import annotations

from crawlframe.errors import ConfigError
from crawlframe.frontier.client.records import BLOCKED, Claimed
from crawlframe.node.worker.crawl.stage import ClaimedFetch, Next, NoResponse
from crawlframe.node.worker.fetch.proxy_source import ProxySource
from crawlframe.proxies.place import place_of
from crawlframe.response.response import Response
from crawlframe.run.outcome import Outcome, Verdict

UNKNOWN_PAUSE = 1000  # milliseconds that a request waits whose proxy is not known any more
UNREADABLE_PAUSE = 30_000  # the same if this node cannot read the credentials of its proxy


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
            outcome.target, outcome.previous_record = place_of(outcome.host, route), outcome.record
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
