"""Port: the Scrapy side of one task in one worker: its crawler, spider and callbacks."""

from __future__ import annotations

import functools
import inspect
import logging
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from itemadapter import ItemAdapter
from scrapy import Request as ScrapyRequest
from scrapy import exceptions, signals
from scrapy.http import HtmlResponse
from scrapy.settings import Settings
from scrapy.utils.defer import ensure_awaitable
from scrapy.utils.response import get_meta_refresh
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from crawlframe.base.stats import RUNNING
from crawlframe.errors import CloseTask, DropItem, FetchError, PipelineFailed, SpiderError
from crawlframe.response.response import Response
from crawlframe.scrapy import components, responses
from crawlframe.scrapy.callbacks import ScrapyCallbacks
from crawlframe.scrapy.crawler import (
    RECEIVED,
    REQUESTED,
    SCHEDULED,
    PortedCrawler,
    PortedStats,
)
from crawlframe.scrapy.downloads import Downloads, exception_of, failure_of, fetch_error_of
from crawlframe.scrapy.requests import Translator
from crawlframe.scrapy.settings import mapped
from crawlframe.spider.task_info import Summary

log = logging.getLogger(__name__)
_REFRESH = re.compile(rb"http-equiv", re.I)
_REFRESHED = "crawlframe_refreshes"  # key of meta


class Port:
    """``ported`` is our spider, whose ``_inline`` fetches for it."""

    def __init__(
        self, ported: Any, kind: type, settings: Settings, arguments: dict[str, Any]
    ) -> None:
        """Raises errors of the author's code."""
        self._ported = ported
        self.crawler = crawler = PortedCrawler(kind, settings)
        crawler.open(arguments, self.download)
        spider: Any = crawler.spider
        self.spider = spider
        if isinstance(crawler.stats, PortedStats):
            crawler.stats.task = ported.stats
        self._settings = crawler.settings
        taken = frozenset(dir(type(ported))) - {"parse"}
        self.translator = Translator(spider, self._settings, taken)
        self.items = Items(crawler)
        self.callbacks = ScrapyCallbacks(crawler, self.translator)
        self.downloads = Downloads(crawler, self.translator)
        self._handled = frozenset(
            mapped(self._settings, type(self.spider)).settings.get("handle_statuses", ())
        )
        self._refreshes = self._settings.getbool("METAREFRESH_ENABLED")
        self._made: dict[str, Callable[..., Any]] = {}

    @property
    def allowed_domains(self) -> tuple[str, ...]:
        """Host names; other entries are ignored, as by Scrapy."""
        given = getattr(self.spider, "allowed_domains", None) or ()
        return tuple(
            str(domain) for domain in given if domain and "/" not in domain and ":" not in domain
        )

    # -- start and end of a task ----------------------------------------------------------------

    async def open(self) -> None:
        """Opens pipelines and notifies receivers of signals."""
        self.crawler.stats.set_value("start_time", datetime.now(UTC))
        await self.crawler.send_async(signals.engine_started)
        await self.items.open_all()
        await self.crawler.send_async(signals.spider_opened, spider=self.spider)

    async def end(self, summary: Summary) -> None:
        """Ends the task, once over all workers: ``closed`` of the spider runs here."""
        stats = {**summary.stats, **summary.maxima}
        took = summary.finished_at - summary.started_at
        reason = _reason_of(summary)
        self.crawler.stats.set_stats(
            {
                **self.crawler.stats.get_stats(),
                **stats,
                REQUESTED: summary.done + summary.errors,
                "downloader/response_count": summary.done,
                "item_scraped_count": summary.items,
                "response_received_count": summary.done,
                SCHEDULED: summary.requests,
                "start_time": summary.started_at,
                "finish_time": summary.finished_at,
                "elapsed_time_seconds": took.total_seconds(),
                "finish_reason": reason,
            }
        )
        await self.items.close_all()
        self.items.components.clear()
        await self.crawler.send_async(signals.spider_closed, spider=self.spider, reason=reason)

    async def release(self) -> None:
        """Closes the pipelines in this worker."""
        await self.items.close_all()
        self.items.components.clear()
        await self.crawler.send_async(signals.engine_stopped)

    # -- callbacks ----------------------------------------------------------------------------

    def method(self, name: str) -> Callable[..., Any] | None:
        """A callback or errback of ours that runs the spider's method; None if there is none."""
        if name not in self._made:
            function = getattr(self.spider, name, None)
            if not callable(function):
                return None

            @functools.wraps(function)
            def run(got: Response | FetchError, **named: Any) -> Any:
                if isinstance(got, FetchError):
                    return self._fail(function, got)
                # Scrapy's kinds of spiders have a default callback of their own.
                own = self.spider._parse if got.request.callback is None else function
                return self._respond(own, got, named)

            self._made[name] = run
        return self._made[name]

    def _respond(self, function: Callable[..., Any], got: Response, named: dict[str, Any]) -> Any:
        if got.request.cookies:
            self._keep_cookies(got)
        response = vars(got).pop("scrapy", None)
        if isinstance(response, ScrapyRequest):  # a middleware put it in place of the page
            return iter_one(self.translator.ours(response))
        if isinstance(response, Exception):
            ours = fetch_error_of(response)
            ours.request = got.request
            return self._fail_with(ours, None)
        if response is None:
            response = responses.theirs(got, self.translator.theirs(got.request))
        vars(got)["scrapy"] = response
        self.crawler.note(*RECEIVED, f"downloader/response_status_count/{got.status}")
        attempts = getattr(RUNNING.get(None), "attempts", 0)
        if attempts:
            response.request.meta["retry_times"] = attempts
        self._tell(response.request, response)
        if 300 <= got.status < 400 and not self._handles(response):
            error = FetchError(f"{got.url} answered {got.status}")
            error.request, error.response = got.request, got
            return self._fail_with(error, response)
        if self._refreshes and isinstance(response, HtmlResponse) and _REFRESH.search(got.body):
            refreshed = self._refreshed(response)
            if refreshed is not None:
                return iter_one(self.translator.ours(refreshed))
        return self.callbacks.call(function, response, named)

    def _fail(self, function: Callable[..., Any], error: FetchError) -> Any:
        response = None
        self.crawler.note(REQUESTED)
        request = self.translator.theirs(error.request)
        if error.response is not None:
            known = vars(error.response).pop("scrapy", None)
            response = known or responses.theirs(error.response, request)
        self._tell(request, response)
        return self.callbacks.fail(function, failure_of(error, request, response), response)

    def _tell(self, request: ScrapyRequest, response: Any) -> None:
        """Sends the signals of a fetch, all when it is over."""
        send, told = self.crawler.send, {"request": request, "spider": self.spider}
        send(signals.request_reached_downloader, **told)
        if response is not None:
            size = len(response.body)
            send(signals.headers_received, headers=response.headers, body_length=size, **told)
            send(signals.bytes_received, data=response.body, **told)
            send(signals.response_downloaded, response=response, **told)
            send(signals.response_received, response=response, **told)
        send(signals.request_left_downloader, **told)

    def _fail_with(self, error: FetchError, response: Any) -> Any:
        """The errback's results for a page that only Scrapy counts as failed."""
        request = self.translator.theirs(error.request)
        failure = failure_of(error, request, response)
        return self.callbacks.fail(request.errback or _nothing, failure, response)

    def _handles(self, response: Any) -> bool:
        meta = response.meta
        if meta.get("handle_httpstatus_all"):
            return True
        return response.status in meta.get("handle_httpstatus_list", self._handled)

    def _refreshed(self, response: HtmlResponse) -> ScrapyRequest | None:
        """The request for the target of a page that redirects by meta refresh."""
        meta, settings = response.meta, self._settings
        if meta.get("dont_redirect"):
            return None
        ignored = settings.getlist("METAREFRESH_IGNORE_TAGS")
        seconds, url = get_meta_refresh(response, ignore_tags=ignored)
        times = meta.get(_REFRESHED, 0) + 1
        if (
            not url
            or seconds is None
            or seconds >= settings.getint("METAREFRESH_MAXDELAY")
            or times > settings.getint("REDIRECT_MAX_TIMES")
        ):
            return None
        request: ScrapyRequest = response.request  # type: ignore[assignment]
        return request.replace(
            url=url,
            method="GET",
            body=b"",
            meta={**request.meta, _REFRESHED: times},
            dont_filter=request.dont_filter or url == response.url,  # it has set a cookie
        )

    # -- inside of a callback -----------------------------------------------------------------

    async def download(self, request: ScrapyRequest) -> Any:
        """The response to a request, as of ``crawler.engine.download``."""
        ours = self.translator.ours(request.replace(callback=None, errback=None))
        try:
            got: Response = await self._ported._inline.fetch(ours)
        except FetchError as error:
            raise exception_of(error) from error
        response = vars(got).get("scrapy")
        if isinstance(response, Exception):
            raise response
        if isinstance(response, ScrapyRequest):
            return await self.download(response)
        return response or responses.theirs(got, request)

    def _keep_cookies(self, got: Response) -> None:
        """Scrapy keeps the cookies of a request for later requests; cookies that the response sets
        are newer."""
        inline = self._ported._inline
        if inline is not None:
            set_here = {one.partition("=")[0] for one in got.headers.getall("Set-Cookie", [])}
            cookies = {k: v for k, v in got.request.cookies.items() if k not in set_here}
            inline.keep_cookies(got.request, cookies)


def _nothing(failure: Any) -> None:
    """The errback of a request that has none."""


def iter_one(thing: Any) -> Any:
    """An iterator that the engine runs as it does a generator."""
    yield thing


def _reason_of(summary: Summary) -> str:
    if summary.outcome == "cancelled":
        return "cancelled"
    return summary.reason if summary.outcome == "finished" and summary.reason else "finished"


class Items:
    """The way of an item before it is stored: each pipeline in order, then the signals."""

    def __init__(self, crawler: PortedCrawler) -> None:
        self._crawler = crawler
        self._spider = crawler.spider
        self.components = components.made(crawler, components.PIPELINES)
        self._steps = [
            (type(one).__name__, process)
            for one in self.components
            if (process := components.method(one, "process_item", self._spider)) is not None
        ]
        if any(components.waits(one, "process_item") for one in self.components):
            self.process_item = self._process_async
        else:
            self.process_item = self._process

    async def open_all(self) -> None:
        """Calls ``open_spider`` of each pipeline."""
        for function in components.methods(self.components, "open_spider", self._spider):
            await ensure_awaitable(function())

    async def close_all(self) -> None:
        """Calls ``close_spider`` of each pipeline, the last first."""
        for function in components.methods(self.components[::-1], "close_spider", self._spider):
            await ensure_awaitable(function())

    def _process(self, item: Any, response: Response | None) -> Any:
        """As ``_process_async``, if no pipeline is a coroutine; one may return a Deferred that has
        fired."""
        running = self._process_async(item, response)
        try:
            running.send(None)
            return running.throw(
                SpiderError(
                    "a pipeline returned a Deferred that waits for Twisted's reactor, which does "
                    "not run here; write async def process_item"
                )
            )
        except StopIteration as end:
            return end.value

    async def _process_async(self, item: Any, response: Response | None) -> Any:
        name = ""
        try:
            for step, process in self._steps:
                name = step
                item = process(item)
                if inspect.isawaitable(item) or isinstance(item, Deferred):
                    item = await ensure_awaitable(item)
        except Exception as error:
            raise self._ended(error, item, name, response) from error
        if item is None:
            raise DropItem(f"{name} returned None")
        self._crawler.note("item_scraped_count")
        self._signal(signals.item_scraped, item, response)
        return with_text(item)

    def _ended(self, error: Exception, item: Any, name: str, response: Any) -> Exception:
        if isinstance(error, exceptions.DropItem):
            level = error.log_level or self._crawler.settings.get("DEFAULT_DROPITEM_LOG_LEVEL")
            log.log(logging.getLevelName(level), "dropped by %s: %s", name, error)
            self._crawler.note("item_dropped_count")
            self._signal(signals.item_dropped, item, response, exception=error)
            return DropItem(name)  # the message may differ for each item
        if isinstance(error, exceptions.CloseSpider):
            return CloseTask(error.reason)
        if self._crawler.listens(signals.item_error):
            self._signal(signals.item_error, item, response, failure=Failure(error))
        log.error("%s failed on an item: %r", name, item, exc_info=error)
        return PipelineFailed(f"{name} raised {type(error).__name__}")

    def _signal(self, signal: object, item: Any, response: Any, **more: Any) -> None:
        if self._crawler.listens(signal):
            theirs = getattr(response, "scrapy", None)
            self._crawler.send(signal, item=item, response=theirs, spider=self._spider, **more)


def with_text(item: Any) -> Any:
    """The item with fields of bytes as text, for it is stored as JSON; Scrapy's exporters decode
    them. Bytes that are no UTF-8 stay, and are refused where the item is stored."""
    if not ItemAdapter.is_item(item):
        return item
    adapter = ItemAdapter(item)
    if not any(isinstance(value, bytes) for value in adapter.values()):
        return item
    return {name: _decoded(value) for name, value in adapter.items()}


def _decoded(value: Any) -> Any:
    try:
        return value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        return value
