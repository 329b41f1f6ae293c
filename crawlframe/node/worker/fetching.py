"""Fetching: the first half of a request's run, from the claim to its response."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import TypeVar

from crawlframe import faults
from crawlframe.errors import Blocked, ConnectionLost, FetchError, UnparsablePage
from crawlframe.fetch.downloader import Downloader
from crawlframe.fetch.memory import Account
from crawlframe.fetch.middlewares import MiddlewareFailed
from crawlframe.fetch.redirects import IDEMPOTENT
from crawlframe.frontier.records import NO_SIGNAL, Claimed, Signal
from crawlframe.items import clean_text
from crawlframe.node.worker.backoff import backoff
from crawlframe.node.worker.callbacks import Callbacks
from crawlframe.node.worker.crawl import TaskCrawl
from crawlframe.node.worker.failures import StatusError, callback_traceback
from crawlframe.node.worker.memory_waits import MemoryWaits
from crawlframe.node.worker.signalling import Judge
from crawlframe.outcome import CANCELLED, Outcome, Verdict
from crawlframe.request import Request
from crawlframe.response import Response

T = TypeVar("T")


class Fetching:
    """The fetches of one worker. ``callbacks`` knows the slow callbacks, and marks the middlewares
    that run; ``fetched`` is called for each fetch that is over, whether or not it brought a
    response, with what it says about its host. ``clock`` returns seconds."""

    def __init__(
        self,
        downloader: Downloader,
        callbacks: Callbacks,
        fetched: Callable[[Claimed, Signal], None] = lambda claimed, signal: None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._downloader = downloader
        self._callbacks = callbacks
        self._fetched = fetched
        self._clock = clock
        self._memory_waits = MemoryWaits()

    async def fetch(
        self,
        outcome: Outcome,
        crawl: TaskCrawl,
        request: Request,
        claimed: Claimed,
        account: Account,
    ) -> Response | None:
        """Returns the response for the callback. None: the outcome has ended, and the request waits
        without an attempt being counted. Raises FetchError, StatusError for an unhandled status,
        MiddlewareFailed and JudgementFailed."""
        account.in_advance = outcome.rid in self._memory_waits
        sent = request
        started = self._clock()
        watch = _Watch(self._callbacks, outcome.rid, crawl.spec.spider)
        judge = Judge(crawl, watch.in_loop)

        async def download(asked: Request) -> Response:
            nonlocal sent
            sent = asked
            return await judge.of(
                asked,
                self._downloader.fetch(
                    asked, crawl.settings, crawl.spider, crawl.cookies, crawl.allows, account
                ),
                self._clock,
            )

        try:
            faults.at("fetch.before", ConnectionLost)
            if crawl.middlewares is None:
                response = await download(request)
            else:
                response = await crawl.middlewares.fetch(request, download, watch)
                account.settle(len(response.body))  # also for a response that a middleware made
            faults.at("fetch.after", ConnectionLost)
        except (FetchError, MiddlewareFailed) as error:
            excused = isinstance(error, FetchError) and (
                (sent.method in IDEMPOTENT or crawl.retries(request) > 0)
                and self._memory_waits.excuses(outcome.rid, error, account)
            )
            outcome.signal = NO_SIGNAL if excused else judge.signal
            outcome.fetch_ms = self._end(claimed, started, outcome.signal)
            outcome.cookies = crawl.cookies.changes()
            if excused and isinstance(error, FetchError):
                outcome.end(Verdict.DEFER, error.reason, str(error), backoff(outcome.attempts))
                return None
            if isinstance(error, Blocked) and error.response is not None:
                outcome.status, outcome.size = error.response.status, len(error.response.body)
            raise
        outcome.signal = judge.signal
        # Hosts of slow callbacks keep their slots: otherwise they would occupy all slots of the
        # workers.
        keep = self._callbacks.is_slow(outcome.task, outcome.callback)
        outcome.fetch_ms = self._end(claimed, started, outcome.signal, keep)
        outcome.status, outcome.size = response.status, len(response.body)
        outcome.cookies = crawl.cookies.changes()
        judge.check()
        if not crawl.handles(sent, response.status):
            raise StatusError(response, response.status in crawl.settings.retry_statuses)
        return response

    def _end(
        self, claimed: Claimed, started: float, signal: Signal, keep_slot: bool = False
    ) -> int:
        """Reports the end of a fetch. Returns the milliseconds that it took."""
        if not keep_slot:
            self._fetched(claimed, signal)
        return round((self._clock() - started) * 1000)


class _Watch:
    """Marks the middlewares of one request as they run, as Callbacks does for its callback."""

    def __init__(self, callbacks: Callbacks, rid: bytes, spider: str) -> None:
        self._callbacks = callbacks
        self._rid = rid
        self._what = f"a middleware of spider {spider}"

    def in_loop(self, awaitable: Awaitable[T]) -> Awaitable[T]:
        return self._callbacks.stepwise(awaitable, self._rid, self._what)

    def in_thread(self) -> AbstractContextManager[None]:
        return self._callbacks.in_thread(self._rid)


def reason_of(error: FetchError) -> str:
    """The error's reason for the ledger, in one line. Authors choose the reasons of their own
    errors; one named "cancelled" is replaced, since it would not count as an error."""
    reason = " ".join(clean_text(str(error.reason)).split())
    return FetchError.reason if reason in ("", CANCELLED) else reason


def describe(failed: MiddlewareFailed) -> tuple[str, str]:
    """Reason and detail for the ledger."""
    error = failed.error
    reason = error.reason if isinstance(error, UnparsablePage) else "middleware"
    return reason, f"middleware {failed.name}:\n{callback_traceback(error)}"
