"""Reparsing: requests whose pages are kept. Today's callbacks run on them, without the network."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from crawlframe.base.bounded_dict import BoundedDict
from crawlframe.errors import FetchError
from crawlframe.fetch.body.memory import Account, TransferMemory
from crawlframe.fetch.journey.trail import Trail
from crawlframe.fetch.middlewares import MiddlewareFailed
from crawlframe.node.running_marks import LOOP
from crawlframe.node.worker.crawl.callbacks import Callbacks, MiddlewareWatch
from crawlframe.node.worker.crawl.stage import CrawlFetch
from crawlframe.node.worker.crawl.task_crawl import Park, TaskCrawl, check_fit
from crawlframe.node.worker.fetch.usage_signals import UsageSignals
from crawlframe.node.worker.pages.kept_pages import KeptPages
from crawlframe.node.worker.start.start_parts import StartEnded
from crawlframe.node.worker.start.start_run import StartRuns
from crawlframe.node.worker.task.crawls import Crawls, UnknownTask
from crawlframe.node.worker.task.task_source import TaskSource
from crawlframe.node.worker.verdict.backoff import backoff
from crawlframe.node.worker.verdict.failures import StatusError, describe, reason_of, trim
from crawlframe.node.worker.verdict.signals import JudgementFailed, ResponseClassifier
from crawlframe.pages.reparse import (
    PAGES_URL,
    Reparse,
    Replacement,
    SourcePage,
    page_admission,
    page_in,
)
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlframe.run.ledger import StartPart
from crawlframe.run.outcome import Outcome, Verdict

PART = 500  # requests that are recorded and admitted together
MAX_TASKS = 1000  # whose definitions are remembered
STORE_TRIES = 5  # of a page whose body cannot be read now
UPLOAD_MS = 60_000  # milliseconds until a page is read again that another node has to upload
NOT_KEPT = "not_kept"

# Runs the callback or errback of a request, as RequestRunner does.
Call = Callable[[Outcome, TaskCrawl, Request, Response | FetchError], Awaitable[Outcome]]


class Reparsing:
    """Reparses kept pages of one worker. ``starts`` records the parts of the requests for them.
    ``mark``: as of Callbacks, ``failed``: as of RequestRunner."""

    def __init__(
        self,
        source: TaskSource,
        pages: KeptPages,
        starts: StartRuns,
        crawls: Crawls,
        callbacks: Callbacks,
        mark: Callable[[int, bytes], None],
        failed: Callable[[BaseException], None],
        user_agent: str,
    ) -> None:
        self._source = source
        self._pages = pages
        self._starts = starts
        self._crawls = crawls
        self._callbacks = callbacks
        self._mark = mark
        self._failed = failed
        self._usage = UsageSignals(user_agent)
        self._classifier = ResponseClassifier(callbacks)
        # task -> pages that it parses, and priority
        self._known: BoundedDict[int, tuple[Reparse, int]] = BoundedDict(MAX_TASKS)

    async def run(self, outcome: Outcome, alone: bool, call: Call) -> Outcome:
        """Returns the outcome of the first request of a task that parses kept pages, or of one for
        a page. Raises as ``RequestRunner.run`` expects it."""
        if outcome.task not in self._known:
            spec = await self._source.load_task(outcome.task)
            if spec is None or spec.reparse is None:
                raise Park(f"task {outcome.task} parses no kept pages")
            self._known[outcome.task] = spec.reparse, spec.priority
        reparse, priority = self._known[outcome.task]
        if outcome.url == PAGES_URL:
            try:
                await self._find(outcome, reparse, priority, alone)
            except StartEnded as ended:
                outcome.end(ended.verdict, ended.reason, ended.detail)
            return outcome
        page = await self._pages.page(page_in(outcome.url))
        if page is None:
            return outcome.end(Verdict.ERROR, NOT_KEPT, "the page is not kept any more")
        try:
            return await self._parse_page(outcome, page, reparse, call)
        finally:
            self._pages.give(page)

    # -- which pages ------------------------------------------------------------------------------

    async def _find(self, outcome: Outcome, reparse: Reparse, priority: int, alone: bool) -> None:
        """Admits a request for each page, in the order of their numbers, in parts: a run that is
        interrupted is continued behind its last part. Raises StartEnded."""
        task, parts = outcome.task, self._starts.parts
        number = position = after = 0
        if last := await parts.last(task):
            number, position = last.number + 1, last.position
            after = int.from_bytes(last.mark)
        while True:
            await self._starts.wait(task)
            found = await self._pages.numbers(reparse, after, PART)
            before, after = after, found.seen
            if found.numbers:
                position += len(found.numbers)
                admissions = [page_admission(task, page, priority) for page in found.numbers]
                mark = after.to_bytes(8)
                part = StartPart(task, outcome.rid, number, position, mark, 0, admissions)
                written = await parts.record(outcome.host, part, [])
                number += bool(written.follow_ups)
                if alone:  # it has proved to be harmless
                    raise StartEnded(Verdict.RELEASE)
            elif found.is_all:
                return
            elif after == before:
                await self._starts.rest()

    # -- one page ---------------------------------------------------------------------------------

    async def _parse_page(
        self, outcome: Outcome, page: SourcePage, reparse: Reparse, call: Call
    ) -> Outcome:
        outcome.url = page.url
        outcome.fetch.status, outcome.fetch.size = page.status, len(page.body)
        if page.problem:
            if page.elsewhere:  # a node may take minutes to upload it, which is no attempt
                return outcome.end(Verdict.DEFER, "store", page.problem, UPLOAD_MS)
            if page.again and outcome.attempts < STORE_TRIES:
                return outcome.end(Verdict.RETRY, "store", page.problem, backoff(outcome.attempts))
            return outcome.end(Verdict.ERROR, "store", page.problem)
        request = self._decode(outcome, page)
        try:
            crawl = await self._crawls.get(page.task, outcome.rid, offline=True)
        except UnknownTask:  # it was removed in this moment, and its pages with it
            return outcome.end(Verdict.ERROR, NOT_KEPT, "its task was removed")
        check_fit(crawl, request)
        outcome.results.source = Replacement(
            *(page.number, page.rid, page.task, page.failed, reparse.dry_run, reparse.key),
            body=page.stored,
        )
        outcome.parent = page.task if reparse.follow else 0
        response = page.response(request)
        try:
            response = await self._judged(outcome, crawl, request, response)
            if page.changed and crawl.middlewares is not None:
                response = await self._changed(outcome, crawl, request, response)
            if not crawl.handles(request, response.status):
                raise StatusError(response, retryable=False)
            self._usage.read(response, request, outcome, crawl.settings)
        except FetchError as error:
            await self._answer(outcome, crawl, request, error, call)
        except (MiddlewareFailed, JudgementFailed) as failed:
            self._failed(failed.error)
            outcome.end(Verdict.ERROR, *describe(failed))
        else:
            await call(outcome, crawl, request, response)
        # The items belong to the request that brought the page. A page that closed its task, named
        # proxies, or was visited for a watch, did so when it was fetched.
        outcome.results.closing, outcome.results.proxies, outcome.results.visit = "", None, None
        if outcome.results.source is not None:
            outcome.results.source.items, outcome.results.items = outcome.results.items, []
        return outcome

    def _decode(self, outcome: Outcome, page: SourcePage) -> Request:
        self._mark(LOOP, outcome.rid)  # constructors of authors' classes run here
        try:
            request = Request.decode(page.record)
        finally:
            self._mark(LOOP, b"")
        outcome.url, outcome.depth = request.url, request.depth
        outcome.callback = request.callback or "parse"
        return request

    async def _judged(
        self, outcome: Outcome, crawl: TaskCrawl, request: Request, response: Response
    ) -> Response:
        """The response as today's is_blocked judges it. Raises FetchError, JudgementFailed."""

        async def kept(fetch: CrawlFetch) -> Response:
            return response

        fetch = CrawlFetch(
            *(crawl, outcome.rid, request, Trail(request), Account(TransferMemory()))
        )
        judged = await self._classifier.fetch(fetch, kept)
        if fetch.misjudged is not None:
            raise JudgementFailed(fetch.misjudged)
        return judged

    async def _changed(
        self, outcome: Outcome, crawl: TaskCrawl, request: Request, response: Response
    ) -> Response:
        """Returns the response as the middlewares change a page that was kept before they did.
        Raises FetchError and MiddlewareFailed."""

        async def kept(asked: Request) -> Response:
            return response

        assert crawl.middlewares is not None
        watch = MiddlewareWatch(self._callbacks, outcome.rid, crawl.spec.spider)
        asked = Request.decode(request.encode())  # their changes of it were for the fetch
        return await crawl.middlewares.fetch(asked, kept, watch)

    async def _answer(
        self,
        outcome: Outcome,
        crawl: TaskCrawl,
        request: Request,
        error: FetchError,
        call: Call,
    ) -> None:
        """Handles a page that is an error by today's code. If it was one before, its errback's new
        results replace the old ones; if not, everything stays as it is."""
        assert outcome.results.source is not None
        if not outcome.results.source.failed:
            outcome.end(Verdict.ERROR, reason_of(error), trim(str(error)))
            return
        outcome.results.source.still = True
        if request.errback:
            error.request = request
            await call(outcome, crawl, request, error)
