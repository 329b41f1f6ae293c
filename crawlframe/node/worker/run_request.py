"""RequestRunner: one request's way from fetch to outcome. No fork, no Redis, no database."""

from __future__ import annotations

import asyncio
import inspect
import time
import traceback
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from crawlframe import faults
from crawlframe.code.registry import Registry
from crawlframe.conf import Settings
from crawlframe.errors import (
    ArgumentError,
    BadRequest,
    ConnectionLost,
    FetchError,
    MissingCode,
    UnknownCallback,
    UnknownSpider,
    UnparsablePage,
)
from crawlframe.fetch.cookies import TaskCookies
from crawlframe.fetch.downloader import Downloader
from crawlframe.fetch.memory import Account
from crawlframe.fetch.redirects import IDEMPOTENT
from crawlframe.frontier.records import Claimed, TaskView
from crawlframe.ledger import TaskSpec
from crawlframe.links import hostname_of
from crawlframe.node.running_marks import LOOP
from crawlframe.node.worker import callbacks
from crawlframe.node.worker.backoff import backoff, retry_after
from crawlframe.node.worker.callbacks import Call, Callbacks
from crawlframe.node.worker.memory_waits import Starved
from crawlframe.node.worker.sieve import Sieve
from crawlframe.outcome import CANCELLED, Collector, Outcome, Verdict, clean_text
from crawlframe.record import read_head
from crawlframe.request import ROOT_CALLBACK, ROOT_URL, Request
from crawlframe.response import Response
from crawlframe.spider import Spider, SpiderSettings, build, read_settings

MAX_DETAIL = 8192  # characters of a message or traceback in the ledger


@dataclass
class Crawl:
    """One task in this worker: its spider object, made once."""

    spec: TaskSpec
    spider: Spider
    start_arguments: dict[str, Any]
    settings: SpiderSettings
    cookies: TaskCookies | None
    cookie_version: int = 0
    domains: tuple[str, ...] = ()
    misfits: dict[tuple[str, frozenset[str]], str] = field(default_factory=dict)

    def allows(self, hostname: str) -> bool:
        """Is the host one of allowed_domains or below one?"""
        return not self.domains or any(
            hostname == domain or hostname.endswith("." + domain) for domain in self.domains
        )

    def allows_url(self, url: str) -> bool:
        return self.allows(hostname_of(url))


class Park(Exception):
    """The request cannot run now. For ``lack_of_code``, it may with another version."""

    lack_of_code = True


class RequestRunner:
    """Runs requests of any task. Methods of one event loop.

    ``load_task`` and ``load_cookies`` read database and Redis. ``version`` is that of the
    registry's code."""

    def __init__(
        self,
        settings: Settings,
        registry: Registry,
        version: str,
        downloader: Downloader,
        sieve: Sieve,
        load_task: Callable[[int], Awaitable[TaskSpec | None]],
        load_cookies: Callable[[int], Awaitable[dict[str, str]]],
        mark: Callable[[int, bytes], None],
        tell_slow: Callable[[int, str, bool], None] = lambda task, name, computes: None,
        fetched: Callable[[Claimed], None] = lambda claimed: None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """``mark`` and ``tell_slow`` are those of Callbacks. ``fetched`` is told of each fetch that
        is over, whether or not it brought a response. ``clock`` gives seconds."""
        self._settings = settings
        self._registry = registry
        self._version = version
        self._downloader = downloader
        self._sieve = sieve
        self._load_task = load_task
        self._load_cookies = load_cookies
        self._mark = mark
        self._fetched = fetched
        self._clock = clock
        self.callbacks = Callbacks(settings, mark, tell_slow)
        self._crawls: dict[int, asyncio.Future[Crawl]] = {}
        self._starved = Starved()

    async def run(self, claimed: Claimed, view: TaskView) -> Outcome:
        """The outcome of one request; only cancellation raises."""
        rid, task, host, attempts, deliveries, record, *_ = claimed
        outcome = Outcome(rid, task, host, record, attempts, deliveries, version=self._version)
        try:
            request = Request.decode(record)
            outcome.url, outcome.depth = request.url, request.depth
            outcome.callback = request.callback or "parse"
            if view.state == "cancelling":
                return outcome.end(Verdict.ERROR, CANCELLED)
            if poison := claimed.poison(self._settings.max_deliveries):
                return outcome.end(Verdict.ERROR, "poison", poison)
            crawl = await self._crawl(claimed.task, rid)
            if crawl.cookies is not None and view.cookies > crawl.cookie_version:
                crawl.cookies.load(await self._load_cookies(claimed.task))
                crawl.cookie_version = view.cookies
            if request.url == ROOT_URL:
                return await self._call(outcome, crawl, request, None)
            with self._downloader.memory.account() as account:  # until the callback is over
                return await self._fetch_and_call(outcome, crawl, request, claimed, account)
        except Park as error:
            if not error.lack_of_code:
                outcome.version = ""
            return outcome.end(Verdict.PARK, str(error))
        except MissingCode as error:
            with suppress(BadRequest):
                outcome.url, outcome.depth, outcome.callback, _ = read_head(record)
            if view.state == "cancelling":
                return outcome.end(Verdict.ERROR, CANCELLED)
            return outcome.end(Verdict.PARK, trim(str(error), 500))
        except BadRequest as error:
            return outcome.end(Verdict.ERROR, "bad_request", trim(str(error)))

    async def _fetch_and_call(
        self,
        outcome: Outcome,
        crawl: Crawl,
        request: Request,
        claimed: Claimed,
        account: Account,
    ) -> Outcome:
        # Park before the fetch, not after it.
        check_fit(crawl, request)
        account.in_advance = outcome.rid in self._starved
        started = self._clock()
        try:
            faults.at("fetch.before", ConnectionLost)
            response = await self._downloader.fetch(
                request, crawl.settings, crawl.spider, crawl.cookies, crawl.allows, account
            )
            faults.at("fetch.after", ConnectionLost)
        except FetchError as error:
            outcome.fetch_ms = self._end_fetch(claimed, started)
            repeatable = request.method in IDEMPOTENT or crawl.settings.retries > 0
            if repeatable and self._starved.excuses(outcome.rid, error, account):
                delay = backoff(outcome.attempts)
                return outcome.end(Verdict.DEFER, error.reason, str(error), delay)
            return await self._fail(outcome, crawl, request, error)
        # Slow callbacks keep their hosts' slots: else they would take all slots of the workers.
        keep = self.callbacks.is_slow(outcome.task, outcome.callback)
        outcome.fetch_ms = self._end_fetch(claimed, started, keep)
        outcome.status, outcome.size = response.status, len(response.body)
        if crawl.cookies is not None:
            outcome.cookies = crawl.cookies.changes()
        wanted = 200 <= response.status < 300 or response.status in crawl.settings.handle_statuses
        if wanted:
            return await self._call(outcome, crawl, request, response)
        retryable = response.status in crawl.settings.retry_statuses
        return await self._fail(outcome, crawl, request, StatusError(response, retryable))

    def _end_fetch(self, claimed: Claimed, started: float, keep_slot: bool = False) -> int:
        """Answers the milliseconds that it took."""
        if not keep_slot:
            self._fetched(claimed)
        return round((self._clock() - started) * 1000)

    async def _fail(
        self, outcome: Outcome, crawl: Crawl, request: Request, error: FetchError
    ) -> Outcome:
        """The request waits for another try, or ends as an error; what its errback yields then
        still counts."""
        if error.retryable and outcome.attempts < crawl.settings.retries:
            delay = backoff(outcome.attempts)
            if error.response is not None:
                delay = max(delay, retry_after(error.response))
            return outcome.end(Verdict.RETRY, error.reason, str(error), delay)
        if request.errback:
            error.request = request
            handled = await self._call(outcome, crawl, request, error)
            if handled.verdict is not Verdict.DONE:
                return handled
            outcome.verdict = Verdict.ERROR
        else:
            outcome.end(Verdict.ERROR)
        outcome.reason, outcome.detail = error.reason, trim(str(error))
        return outcome

    async def _call(
        self, outcome: Outcome, crawl: Crawl, request: Request, got: Response | FetchError | None
    ) -> Outcome:
        """Runs start (got None), callback or errback and collects what it yields."""
        if got is None:
            name = ROOT_CALLBACK
            run = partial(method(crawl, name), **crawl.start_arguments)
        elif isinstance(got, FetchError):
            name = request.errback or ""
            run = partial(method(crawl, name), got)
        else:
            name = request.callback or "parse"
            run = partial(method(crawl, name), got, **request.cb_kwargs)
        collector = Collector(
            outcome,
            priority=crawl.spec.priority,
            depth=0 if got is None else request.depth + 1,
            depth_limit=crawl.settings.depth_limit,
            allowed=crawl.allows_url if crawl.domains else None,
            known=self._sieve.of(outcome.task),
        )
        try:
            faults.at("parse.before")
            await self.callbacks.run(Call(outcome.task, name, outcome.rid, run, collector.take))
            faults.at("parse.after")
        except BaseException as error:  # authors' code may raise anything, SystemExit included
            if isinstance(error, asyncio.CancelledError) and is_cancelled():
                raise
            reason = error.reason if isinstance(error, UnparsablePage) else "callback"
            return outcome.end(Verdict.ERROR, reason, callback_traceback(error))
        return outcome

    async def _crawl(self, task: int, rid: bytes) -> Crawl:
        future = self._crawls.get(task)
        if future is None:
            future = self._crawls[task] = asyncio.ensure_future(self._open(task, rid))
            if len(self._crawls) > 1000:
                del self._crawls[next(iter(self._crawls))]
        try:
            return await asyncio.shield(future)
        except BaseException:
            if future.done():
                self._crawls.pop(task, None)  # the next request asks again
            raise

    async def _open(self, task: int, rid: bytes) -> Crawl:
        spec = await self._load_task(task)
        if spec is None:
            missing = Park(f"task {task} is not in the database")
            missing.lack_of_code = False
            raise missing
        self._mark(LOOP, rid)
        try:
            spider_class = self._registry.get(spec.spider)
            spider, start_arguments = build(spider_class, spec.arguments)
            settings = read_settings(spider_class)
            domains = tuple(domain.lower() for domain in spider.allowed_domains)
        except (UnknownSpider, ArgumentError) as error:
            raise Park(trim(str(error), 500)) from None
        except BaseException as error:  # the author's __init__ and properties run here
            what = "".join(traceback.format_exception_only(error)).strip()
            raise Park(trim(f"spider {spec.spider!r} cannot be made: {what}", 500)) from None
        finally:
            self._mark(LOOP, b"")
        return Crawl(
            spec,
            spider,
            start_arguments,
            settings,
            TaskCookies() if settings.cookies else None,
            domains=domains,
        )


class StatusError(FetchError):
    """The server answered with a status that the spider does not handle."""

    def __init__(self, response: Response, retryable: bool) -> None:
        super().__init__(f"{response.url} answered {response.status}")
        self.retryable = retryable
        self.reason = f"http_{response.status}"
        self.response = response


def method(crawl: Crawl, name: str) -> Callable[..., Any]:
    """The spider's method of this name. Raises Park."""
    function = getattr(crawl.spider, name, None)
    if not callable(function) or getattr(function, "__func__", None) is Spider.parse:
        raise Park(str(UnknownCallback(f"spider {crawl.spec.spider!r} has no method {name!r}")))
    return function  # type: ignore[no-any-return]


def check_fit(crawl: Crawl, request: Request) -> None:
    """Raises Park when the callback does not exist or does not take the request's cb_kwargs: what
    is queued may be older or newer than the code."""
    name = request.callback or "parse"
    function = method(crawl, name)
    asked = (name, frozenset(request.cb_kwargs))
    if asked not in crawl.misfits:
        crawl.misfits[asked] = _misfit(function, asked[1])
    if misfit := crawl.misfits[asked]:
        raise Park(f"{name} of spider {crawl.spec.spider!r} does not fit the request: {misfit}")


def _misfit(function: Callable[..., Any], keywords: frozenset[str]) -> str:
    try:
        inspect.signature(function).bind(None, **dict.fromkeys(keywords))
    except TypeError as error:
        return str(error)
    except ValueError:  # made in C: only the call can tell
        return ""
    return ""


def is_cancelled() -> bool:
    """Was this asyncio task told to stop? Authors' code may raise CancelledError without that."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def trim(text: str, limit: int = MAX_DETAIL) -> str:
    """Text for the ledger: clean, and cut in the middle when it is too long."""
    text = clean_text(text)
    if len(text) <= limit:
        return text
    return f"{text[: limit // 2]}\n...\n{text[-limit // 2 :]}"


def callback_traceback(error: BaseException) -> str:
    """The traceback from the author's code on, without our own frames above it."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [i for i, frame in enumerate(frames) if frame.filename in (__file__, callbacks.__file__)]
    lines = traceback.format_list(frames[own[-1] + 1 :] if own else frames)
    return trim("".join([*lines, *traceback.format_exception_only(error)]))
