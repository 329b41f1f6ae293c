"""AuthorsLayers: the stages that the author of a spider wrote, its middlewares."""

from __future__ import annotations

from crawlframe.node.worker.crawl.callbacks import Callbacks, MiddlewareWatch
from crawlframe.node.worker.crawl.stage import ClaimedFetch, Next
from crawlframe.node.worker.fetch.permits import HostPermits
from crawlframe.request.request import Request
from crawlframe.response.response import Response


class AuthorsLayers:
    """The middlewares of one worker. ``callbacks`` marks them while they run."""

    def __init__(self, callbacks: Callbacks, permits: HostPermits) -> None:
        self._callbacks = callbacks
        self._permits = permits

    async def fetch(self, fetch: ClaimedFetch, call_next: Next[ClaimedFetch]) -> Response:
        """A stage. Raises MiddlewareFailed."""
        assert fetch.crawl.middlewares is not None
        outcome = fetch.outcome

        async def download(asked: Request) -> Response:
            fetch.asked = asked
            fetch.trail.begin()
            response = await call_next(fetch)
            outcome.fetch.received = response
            return response

        watch = MiddlewareWatch(self._callbacks, fetch.rid, fetch.crawl.spec.spider)
        response = await fetch.crawl.middlewares.fetch(fetch.asked, download, watch)
        fetch.account.settle(len(response.body))  # also for a response that a middleware made
        return response

    async def pay(self, fetch: ClaimedFetch, call_next: Next[ClaimedFetch]) -> Response:
        """A stage before a request is sent: if a middleware has fetched from its host, in its slot
        and time, the request waits for another turn."""
        if fetch.outcome.fetch.slot_lent:
            fetch.outcome.fetch.slot_lent = False
            place = fetch.outcome.limited_at
            async with self._permits.take(fetch.crawl, place, 0.0, own=True):
                pass
        return await call_next(fetch)
