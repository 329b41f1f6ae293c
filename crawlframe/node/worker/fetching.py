"""Fetching: the first half of a request's run, from the claim to its response."""

from __future__ import annotations

import time
from collections.abc import Callable

from crawlframe import faults
from crawlframe.errors import ConnectionLost, FetchError
from crawlframe.fetch.downloader import Downloader
from crawlframe.fetch.memory import Account
from crawlframe.fetch.redirects import IDEMPOTENT
from crawlframe.frontier.records import Claimed
from crawlframe.node.worker.backoff import backoff
from crawlframe.node.worker.crawl import Crawl
from crawlframe.node.worker.memory_waits import Starved
from crawlframe.outcome import Outcome, Verdict
from crawlframe.request import Request
from crawlframe.response import Response


class StatusError(FetchError):
    """The server answered with a status that the spider does not handle."""

    def __init__(self, response: Response, retryable: bool) -> None:
        super().__init__(f"{response.url} answered {response.status}")
        self.retryable = retryable
        self.reason = f"http_{response.status}"
        self.response = response


class Fetching:
    """Of one worker. ``is_slow`` tells whether a callback of a task is known to be; ``fetched`` is
    called for each fetch that is over, whether or not it brought a response."""

    def __init__(
        self,
        downloader: Downloader,
        is_slow: Callable[[int, str], bool],
        fetched: Callable[[Claimed], None] = lambda claimed: None,
    ) -> None:
        self._downloader = downloader
        self._is_slow = is_slow
        self._fetched = fetched
        self._starved = Starved()

    async def fetch(
        self,
        outcome: Outcome,
        crawl: Crawl,
        request: Request,
        claimed: Claimed,
        account: Account,
    ) -> Response | None:
        """The response for the callback. None: the outcome has ended, and the request waits without
        a try being counted. Raises FetchError, StatusError for a status that is not handled."""
        account.in_advance = outcome.rid in self._starved
        started = time.perf_counter()
        try:
            faults.at("fetch.before", ConnectionLost)
            response = await self._downloader.fetch(
                request, crawl.settings, crawl.spider, crawl.cookies, crawl.allows, account
            )
            faults.at("fetch.after", ConnectionLost)
        except FetchError as error:
            outcome.fetch_ms = self._end(claimed, started)
            repeatable = request.method in IDEMPOTENT or crawl.settings.retries > 0
            if repeatable and self._starved.excuses(outcome.rid, error, account):
                outcome.end(Verdict.DEFER, error.reason, str(error), backoff(outcome.attempts))
                return None
            raise
        # Slow callbacks keep their hosts' slots: else they would take all slots of the workers.
        keep = self._is_slow(outcome.task, outcome.callback)
        outcome.fetch_ms = self._end(claimed, started, keep)
        outcome.status, outcome.size = response.status, len(response.body)
        if crawl.cookies is not None:
            outcome.cookies = crawl.cookies.changes()
        wanted = 200 <= response.status < 300 or response.status in crawl.settings.handle_statuses
        if not wanted:
            raise StatusError(response, response.status in crawl.settings.retry_statuses)
        return response

    def _end(self, claimed: Claimed, started: float, keep_slot: bool = False) -> int:
        """Returns the milliseconds that it took."""
        if not keep_slot:
            self._fetched(claimed)
        return round((time.perf_counter() - started) * 1000)
