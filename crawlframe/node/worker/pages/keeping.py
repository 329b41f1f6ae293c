"""Keeping: which pages of a worker are kept, and their copies."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from crawlframe.base.bounded_dict import BoundedDict
from crawlframe.base.limits import UNFOLLOWED
from crawlframe.base.urls import host_of
from crawlframe.node.worker.crawl.task_crawl import TaskCrawl
from crawlframe.node.worker.pages.page_reuse import kept_key, manners_of, page_key
from crawlframe.node.worker.pages.sample import SamplePace, without_secrets
from crawlframe.node.worker.verdict.http_log import headers_of
from crawlframe.pages.copy import ITEM, HeldBytes, PageCopy
from crawlframe.request.record import without_hops
from crawlframe.request.request import Request
from crawlframe.response.browser_response import RenderedResponse
from crawlframe.response.response import Response
from crawlframe.run.outcome import Outcome, Verdict
from crawlframe.run.reasons import NO_ERRORS

MAX_HELD = 64 << 20  # bytes of bodies that wait to be stored, unless a single one is larger
POLL = 0.05  # seconds between two looks whether there is room for another page
PER_REASON = 20  # pages of a task and reason that a worker keeps one after the other; then
KEEP_SECONDS = 10.0  # between two of them: the newest are kept, and a storm of errors is not
MISSING = ("http_404", "http_410")
MAX_REASONS = 10_000  # that are counted


class Keeping:
    """Used by the event loop. ``clock`` returns seconds."""

    def __init__(self, samples: SamplePace, clock: Callable[[], float] = time.monotonic) -> None:
        self._samples, self._clock = samples, clock
        self._held = HeldBytes()
        self._kept: BoundedDict[tuple[int, str], tuple[int, float]] = BoundedDict(MAX_REASONS)

    async def take(
        self, outcome: Outcome, crawl: TaskCrawl, request: Request, response: Response | None
    ) -> Outcome:
        """Gives the outcome of a request a copy of its page, if that is to be kept. Waits while
        too much waits to be stored."""
        if response is None or not outcome.verdict.final or (keep := crawl.settings.kept) == "none":
            return outcome
        received, outcome.fetch.received = outcome.fetch.received, None
        failed = outcome.verdict is Verdict.ERROR  # perhaps middlewares said so
        changed = received is not None and (failed or received is not response)
        response = received or response
        if response.file is not None or request.options.save:
            return outcome  # it is in the file store
        reason, sampled = _reason(outcome), False
        if keep != "all" and (reason or failed):
            if outcome.reason in NO_ERRORS or not self._is_due(outcome.task, reason):
                return outcome
        elif keep != "all":
            sampled = keep == "sample" and self._samples.takes(outcome, crawl, response)
            if not (sampled or outcome.results.models):  # which may be refused when written
                return outcome
        while self._held.size > 0 and self._held.size + len(response.body) > MAX_HELD:
            await asyncio.sleep(POLL)
        copy = self._copy(outcome, crawl, request, response, reason)
        copy.tentative = not (reason or sampled or keep == "all")
        if sampled:
            copy.sample, copy.key = outcome.callback, None  # it is not as others would get it
            without_secrets(copy, response, crawl, outcome)
        if changed:
            copy.headers["changed"] = True
        self._held.taken += len(copy.body)
        outcome.results.page = copy
        return outcome

    def _copy(
        self,
        outcome: Outcome,
        crawl: TaskCrawl,
        request: Request,
        response: Response,
        reason: str,
    ) -> PageCopy:
        headers = headers_of(response, crawl.spec.arguments)
        if isinstance(response, RenderedResponse):
            headers["rendered"] = True
        if outcome.fetch.redirects:
            headers["redirects"] = [[hop.status, hop.url] for hop in outcome.fetch.redirects]
        copy = PageCopy(
            response.url,
            host_of(response.url),
            request.method,
            response.status,
            headers,
            response.body,
            without_hops(outcome.record),
            self._held,
            reason,
            size=len(response.body),
            address=response.address,
        )
        if response.coded is not None and response.coded.body is response.body:
            copy.coded = response.coded
        headers["manners"] = manners_of(crawl)
        done = outcome.verdict is Verdict.DONE
        # A page that is missing is so for all tasks.
        if done or outcome.reason in MISSING:
            copy.key = kept_key(crawl, request, response)
            headers["personal"] = copy.key != (outcome.fetch.key or page_key(crawl, request))
            if response.stored is not None:
                copy.fetched_at = response.stored.fetched_at
        if done:
            copy.etag = response.headers.get("ETag", "")
            copy.modified = response.headers.get("Last-Modified", "")
            if outcome.results.signature and _is_repeatable(outcome):
                copy.signature, copy.requests = outcome.results.signature, outcome.results.requests
        return copy

    def _is_due(self, task: int, reason: str) -> bool:
        now, name = self._clock(), (task, reason)
        count, last = self._kept.get(name, (0, 0.0))
        if count >= PER_REASON and now - last < KEEP_SECONDS:
            return False
        self._kept[name] = count + 1, now
        return True


def _is_repeatable(outcome: Outcome) -> bool:
    """Whether items and requests are all that its callback led to."""
    more = (
        outcome.results.models
        or outcome.results.proxies
        or outcome.results.closing
        or outcome.fetch.inline_bytes
    )
    counted = outcome.results.stats.counters if outcome.results.stats else {}
    own = any(not name.startswith(("store/", UNFOLLOWED)) for name in counted)
    return not (more or own or (outcome.results.stats and outcome.results.stats.maxima))


def _reason(outcome: Outcome) -> str:
    if outcome.verdict is Verdict.ERROR:
        return outcome.reason
    return ITEM if outcome.results.unfit else ""
