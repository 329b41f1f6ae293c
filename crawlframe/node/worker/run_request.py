"""RequestRunner: one request's way from fetch to outcome. No fork, no Redis, no database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from crawlframe.base import faults
from crawlframe.base.stats import RUNNING
from crawlframe.conf import Settings
from crawlframe.errors import (
    BadRequest,
    CloseTask,
    FetchError,
    FileGone,
    MissingCode,
    SpiderError,
)
from crawlframe.fetch.body.memory import Account
from crawlframe.fetch.downloader import Downloader
from crawlframe.fetch.middlewares import MiddlewareFailed, is_cancelled
from crawlframe.frontier.client.records import REFUSED, Claimed, TaskView
from crawlframe.identity.tls import OF_TASK
from crawlframe.node.running_marks import LOOP
from crawlframe.node.worker.crawl import article_use
from crawlframe.node.worker.crawl.callbacks import Call, Callbacks
from crawlframe.node.worker.crawl.task_crawl import Park, TaskCrawl, called, check_fit, method
from crawlframe.node.worker.fetch.fetching import Fetching
from crawlframe.node.worker.fetch.inline import InlineFetch
from crawlframe.node.worker.fetch.rendering import Rendering
from crawlframe.node.worker.fetch.stages import FetchSources, Stages
from crawlframe.node.worker.pages.keeping import Keeping
from crawlframe.node.worker.pages.kept_pages import KeptPages
from crawlframe.node.worker.pages.page_reuse import again
from crawlframe.node.worker.pages.sample import SamplePace
from crawlframe.node.worker.reparsing import Reparsing
from crawlframe.node.worker.start.start_parts import StartEnded
from crawlframe.node.worker.start.start_run import StartRuns
from crawlframe.node.worker.task.crawls import Crawls
from crawlframe.node.worker.task.open_task import OPENED, NotOpened
from crawlframe.node.worker.task.task_source import TaskSource
from crawlframe.node.worker.verdict.backoff import FILE_GONE, REFETCH, backoff, backoff_after
from crawlframe.node.worker.verdict.failures import (
    StatusError,
    as_fetch_error,
    callback_traceback,
    closing_reason,
    describe,
    end_as_failed,
    reason_of,
    trim,
)
from crawlframe.node.worker.verdict.http_log import exchange_of
from crawlframe.node.worker.verdict.signals import (
    NO_REPORTS,
    PROXY_RETRIES,
    REFUSALS,
    FetchReports,
    JudgementFailed,
)
from crawlframe.pages.reparse import REPARSE
from crawlframe.proxies.place import host_in, route_in
from crawlframe.request.record import errand_of, hops_of, is_plain
from crawlframe.request.request import END_CALLBACK, END_URL, ROOT_URL, Request
from crawlframe.response.browser_response import is_held, release_page
from crawlframe.response.response import Response
from crawlframe.run.link_filters import Sieve
from crawlframe.run.outcome import Outcome, Verdict
from crawlframe.run.reasons import CANCELLED
from crawlframe.spider.task_info import Summary

EARLY_MS = 1000  # milliseconds that the last request of a task waits if something else is left
PIPELINES = "pipelines"  # the name that async pipelines have in place of a callback's


class RequestRunner:
    """Runs requests of any task. Use it from one event loop.

    ``version``: of the spiders' code that ``source`` uses."""

    def __init__(
        self,
        settings: Settings,
        source: TaskSource,
        version: str,
        downloader: Downloader,
        sieve: Sieve,
        mark: Callable[[int, bytes], None],
        on_slow: Callable[[int, str, bool], None] = lambda task, name, computes: None,
        failed: Callable[[BaseException], None] = lambda error: None,
        reports: FetchReports = NO_REPORTS,
        sources: FetchSources | None = None,
        starts: StartRuns | None = None,
        kept: KeptPages | None = None,
    ) -> None:
        """``mark`` and ``on_slow``: as of Callbacks; ``sources`` and ``reports``: as of Stages.
        ``failed`` is called with errors of authors' code. ``starts`` records the parts of a start;
        None: nothing is recorded before an outcome. ``kept`` reads the pages that are parsed again;
        None: there are none."""
        self._settings = settings
        self._source = source
        self._version = version
        self._downloader = downloader
        self._sieve = sieve
        self._mark = mark
        self._failed, self._starts = failed, starts
        self.callbacks = Callbacks(settings, mark, on_slow)
        sources = sources or FetchSources()
        self._rendering = Rendering(self.callbacks, sources.renders)
        stages = Stages(
            *(downloader, self.callbacks, sources, self._rendering, reports, failed),
            user_agent=settings.user_agent,
        )
        self._fetching = Fetching(self.callbacks, stages.of, sources.permits, reports)
        self._keeping = Keeping(SamplePace(settings.keep_sample, settings.workers))

        def inline(crawl: TaskCrawl) -> InlineFetch:
            return InlineFetch(crawl, downloader, stages.inline, sources.permits, sources.proxies)

        self.crawls = Crawls(source, self.callbacks, mark, inline)
        self._reparsing = None
        if kept is not None and starts is not None:
            more = self.crawls, self.callbacks, mark, failed, settings.user_agent
            self._reparsing = Reparsing(source, kept, starts, *more)

    async def run(self, claimed: Claimed, view: TaskView) -> Outcome:
        """Returns the outcome of one request; raises only when it is cancelled."""
        rid, attempts = claimed.rid, claimed.attempts
        outcome = outcome_of(claimed, self._version)
        RUNNING.set(outcome)
        try:
            poison = claimed.poison(self._settings.max_deliveries)
            if poison or view.state == "cancelling":  # decoding runs authors' code
                outcome.take_head()
                if view.state == "cancelling" and outcome.url != END_URL:
                    return outcome.end(Verdict.ERROR, CANCELLED)
                if poison:
                    return outcome.end(Verdict.ERROR, "poison", poison)
            request = self._decode(outcome)
            if outcome.callback == REPARSE:
                if self._reparsing is None:
                    raise Park("no kept page is parsed here")
                return await self._reparsing.run(outcome, claimed.alone, self._call)
            crawl = await self.crawls.get(claimed.task, rid)
            if view.cookies > crawl.cookie_version:
                crawl.cookies.load(*await self._source.load_cookies(claimed.task))
                crawl.cookie_version = view.cookies
            outcome.parent = crawl.parent
            if request.url == ROOT_URL:
                return await self._call(outcome, crawl, request, None, alone=claimed.alone)
            if request.url == END_URL:
                return await self._end(outcome, crawl, request)
            with self._downloader.memory.account() as account:  # until the callback is over
                done = await self._fetch_and_call(outcome, crawl, request, claimed, account)
            return await self._downloader.pictures.keep(done) if done.results.pictures else done
        except Park as error:
            if view.state == "cancelling":  # its last request, which missing code must not delay
                return outcome.end(Verdict.ERROR, CANCELLED)
            if not error.lack_of_code:
                outcome.version = ""
            return outcome.end(Verdict.PARK, str(error))
        except CloseTask as close:  # raised by opened; the request counts as cancelled then
            outcome.end(Verdict.ERROR, CANCELLED).results.closing = closing_reason(close)
            return outcome
        except NotOpened as error:
            self._failed(error.cause)
            if attempts < error.retries:
                return outcome.end(Verdict.RETRY, OPENED, str(error), backoff(attempts))
            return outcome.end(Verdict.ERROR, OPENED, callback_traceback(error.cause))
        except MissingCode as error:
            return outcome.end(Verdict.PARK, trim(str(error), 500))
        except BadRequest as error:
            return outcome.end(Verdict.ERROR, "bad_request", trim(str(error)))

    def _decode(self, outcome: Outcome) -> Request:
        self._mark(LOOP, outcome.rid)  # constructors of authors' classes run here
        try:
            request = Request.decode(outcome.record)
        except (MissingCode, BadRequest):
            outcome.take_head()
            raise
        finally:
            self._mark(LOOP, b"")
        outcome.url, outcome.depth = request.url + request.fragment, request.depth
        outcome.callback = request.callback or "parse"
        if not is_plain(outcome.record):
            outcome.fetch.redirects = hops_of(outcome.record)
            outcome.side_trip = errand_of(outcome.record)
        return request

    async def _fetch_and_call(
        self,
        outcome: Outcome,
        crawl: TaskCrawl,
        request: Request,
        claimed: Claimed,
        account: Account,
    ) -> Outcome:
        if crawl.settings.tls:
            OF_TASK.set(crawl.settings.tls)
        if outcome.side_trip is None:
            check_fit(crawl, request)  # park before the fetch, not after it
        try:
            response = await self._fetching.fetch(outcome, crawl, request, claimed, account)
        except (MiddlewareFailed, JudgementFailed) as failed:
            self._failed(failed.error)
            return outcome.end(Verdict.ERROR, *describe(failed))
        except (Park, MissingCode):
            raise
        except Exception as raised:
            error = as_fetch_error(raised)
            if not isinstance(raised, FetchError | BadRequest):
                self._failed(raised)
            if not is_held(error.response):  # else the errback may use it
                account.release()
            await self._fail(outcome, crawl, request, error, claimed.refusals)
            return await self._keeping.take(outcome, crawl, request, error.response)
        if response is None:
            return outcome
        if outcome.verdict is Verdict.DONE and outcome.fetch.attempt is None:
            await self._call(outcome, crawl, request, response)
        elif outcome.fetch.attempt is not None and outcome.verdict is Verdict.DONE:
            call = partial(self._call, outcome, crawl, request, response)
            await self._rendering.run(outcome.fetch.attempt, outcome, crawl, response, call)
        if crawl.traps is not None and outcome.verdict is Verdict.DONE:
            results = outcome.results
            results.trap = crawl.traps.see(response.url, response.body, results.items)
        return await self._keeping.take(outcome, crawl, request, response)

    async def _fail(
        self,
        outcome: Outcome,
        crawl: TaskCrawl,
        request: Request,
        error: FetchError,
        refusals: int,
    ) -> Outcome:
        """The request waits for another attempt, or ends as an error; its errback has its say."""
        refused = outcome.fetch.signal[0] == REFUSED and isinstance(error, StatusError)
        outcome.fetch.retry_proxy = outcome.fetch.via is not None and outcome.fetch.via.of_pool
        outcome.fetch.retry_proxy &= refusals + 1 < PROXY_RETRIES.get(outcome.fetch.signal[0], 0)
        if outcome.fetch.retry_proxy:  # that proxy rests, and another is tried at once
            return outcome.end(Verdict.RELEASE, error.reason, str(error))
        if refused and refusals + 1 < REFUSALS:  # its host rests, and then it goes first
            asked = max(0, round(outcome.fetch.signal[1]))
            return outcome.end(Verdict.RELEASE, error.reason, str(error), asked)
        if error.retryable and not refused and outcome.attempts < crawl.retries(request):
            delay = backoff_after(error, outcome.attempts)
            return outcome.end(Verdict.RETRY, error.reason, str(error), delay)
        outcome.fetch.exchange = exchange_of(error, crawl.spec.arguments)
        if request.errback:
            error.request = request
            handled = await self._call(outcome, crawl, request, error)
            if handled.verdict is not Verdict.DONE:
                return handled
            outcome.verdict = Verdict.ERROR
        else:
            outcome.end(Verdict.ERROR)
        outcome.reason, outcome.detail = reason_of(error), trim(str(error))
        return outcome

    async def _end(self, outcome: Outcome, crawl: TaskCrawl, request: Request) -> Outcome:
        """Runs ``closed``, the last callback of a task."""
        method(crawl, END_CALLBACK)  # raises Park if it is missing
        summary = await self._source.load_summary(outcome.task)
        if summary is None:  # code of an older release does not hold it back
            return outcome.end(Verdict.DEFER, "not the last one", delay=EARLY_MS)
        return await self._call(outcome, crawl, request, summary)

    async def _call(
        self,
        outcome: Outcome,
        crawl: TaskCrawl,
        request: Request,
        got: Response | FetchError | Summary | None,
        *,
        alone: bool = False,
    ) -> Outcome:
        """Runs start (got None), callback, errback or closed and collects its results."""
        name, run, response = called(crawl, request, got, again=outcome.results.source is not None)
        if outcome.results.earlier is not None:
            run = again(outcome.results.earlier)
        collect = partial(crawl.collector, outcome, request, got, response, self._sieve)
        collector = collect()
        call = Call(outcome.task, name, outcome.rid, run, collector.take)
        keeps = outcome if crawl.keeps_parts else None
        if response is not None and name not in crawl.called:
            crawl.called.add(name)
            article_use.foresee(self.callbacks, outcome.task, crawl.spider, name)
        try:
            faults.at("parse.before")
            if got is None and self._starts is not None:
                step = partial(self._run_step, keeps)
                outcome.results.closing, collector = await self._starts.run(
                    call, outcome, collect, step, alone=alone
                )
            else:
                outcome.results.closing = await self._run_step(keeps, call) or ""
            if collector.waiting:  # for async pipelines; also items yielded before a CloseTask
                finish = call._replace(name=PIPELINES, function=collector.finish)
                closing = await self._run_step(None, finish)
                outcome.results.closing = closing or outcome.results.closing
            collector.done()
            if response is not None and (article := response._drop_derived()) is not None:
                article_use.learn(self.callbacks, outcome.task, crawl.spider, name, article)
            if crawl.watching is not None:
                crawl.watching.look(outcome, crawl.spider, request, got)
            if outcome.results.closing and name == END_CALLBACK:
                raise SpiderError("closed raised CloseTask; the task has ended already")
            faults.at("parse.after")
        except StartEnded as ended:
            return outcome.end(ended.verdict, ended.reason, ended.detail)
        except BaseException as error:  # authors' code may raise anything, SystemExit included
            if isinstance(error, asyncio.CancelledError) and is_cancelled():
                raise
            files = {file.sha256 for file in outcome.results.files}
            if isinstance(error, FileGone) and error.sha256 in files:
                return outcome.end(Verdict.DEFER, FILE_GONE, str(error), delay=REFETCH)
            if isinstance(got, Response) and isinstance(error, FetchError) and error.of_page:
                release_page(got)  # the errback may fetch another page
                outcome.end(Verdict.ERROR).verdict = Verdict.DONE  # as if its fetch had failed
                return await self._fail(outcome, crawl, request, error, 0)
            outcome.end(Verdict.ERROR).results.failure = error, "callback"
        if outcome.results.failure is not None:
            self._failed(outcome.results.failure[0])
            if isinstance(got, Response):
                outcome.fetch.exchange = exchange_of(got, crawl.spec.arguments)
            end_as_failed(outcome, whole=crawl.watching is not None)
        return outcome

    async def _run_step(self, keeps: Outcome | None, call: Call) -> str | None:
        """Runs a callback. Returns the reason for which it closes the task, "" if it does not.
        Raises its errors; if there is an outcome that ``keeps`` its results, the outcome gets the
        error as its failure, and None is returned."""
        try:
            await self.callbacks.run(call)
        except CloseTask as close:
            return closing_reason(close)
        except Exception as error:
            if keeps is None or isinstance(error, FetchError | FileGone):
                raise
            keeps.results.failure = error, "callback"
            return None
        return ""


def outcome_of(claimed: Claimed, version: str) -> Outcome:
    """The outcome of a claimed request, before anything is known of it. ``version``: of the code
    that runs it."""
    rid, task, place, attempts, deliveries, record, *_ = claimed
    host, route = host_in(place), route_in(place)
    outcome = Outcome(rid, task, host, record, attempts, deliveries, version=version, route=route)
    outcome.claim = claimed.claim
    return outcome
