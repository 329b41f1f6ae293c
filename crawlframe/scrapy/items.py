"""Items: the item pipelines of a project, as one step of ours."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from itemadapter import ItemAdapter
from scrapy import exceptions, signals
from scrapy.utils.defer import ensure_awaitable
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from crawlframe.errors import CloseTask, DropItem, PipelineFailed, SpiderError
from crawlframe.response.response import Response
from crawlframe.scrapy import components
from crawlframe.scrapy.crawler import PortedCrawler

log = logging.getLogger(__name__)


class PipelineStep(NamedTuple):
    """``process_item`` of one pipeline."""

    name: str
    process: Callable[..., Any]


_NOTHING = PipelineStep("", lambda item: item)


class Items:
    """What happens to an item before it is stored: each pipeline in order, then the signals."""

    def __init__(self, crawler: PortedCrawler) -> None:
        self._crawler = crawler
        self._spider = crawler.spider
        self.components = components.made(crawler, components.PIPELINES)
        self._steps: list[PipelineStep] = []
        for one in self.components:
            process = components.method(one, "process_item", self._spider)
            if process is not None:
                self._steps.append(PipelineStep(type(one).__name__, process))
        if any(components.waits(one, "process_item") for one in self.components):
            self.process_item = self._process_async
        else:
            self.process_item = self._process

    async def open_all(self) -> None:
        """Calls ``open_spider`` of each pipeline."""
        await self._each("open_spider", self.components)

    async def close_all(self) -> None:
        """Calls ``close_spider`` of each pipeline, the last first."""
        await self._each("close_spider", self.components[::-1])

    async def _each(self, name: str, pipelines: list[Any]) -> None:
        for one in pipelines:
            function = components.method(one, name, self._spider)
            if function is not None:
                await ensure_awaitable(function())

    def _process(self, item: Any, response: Response | None) -> Any:
        step = _NOTHING
        try:
            for step in self._steps:
                item = step.process(item)
                if isinstance(item, Deferred):
                    item = _result(item)
        except Exception as error:
            raise self._ended(error, item, step.name, response) from error
        return self._scraped(item, step.name, response)

    async def _process_async(self, item: Any, response: Response | None) -> Any:
        step = _NOTHING
        try:
            for step in self._steps:
                item = step.process(item)
                if inspect.isawaitable(item) or isinstance(item, Deferred):
                    item = await ensure_awaitable(item)
        except Exception as error:
            raise self._ended(error, item, step.name, response) from error
        return self._scraped(item, step.name, response)

    def _scraped(self, item: Any, name: str, response: Response | None) -> Any:
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
            return DropItem(name)  # the message may be another one for each item
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


def _result(deferred: Deferred[Any]) -> Any:
    """The result of a Deferred that has fired. Raises its error, and SpiderError for one that waits
    for a reactor, which does not run here."""
    if not deferred.called:
        deferred.cancel()
        raise SpiderError(
            "a pipeline returned a Deferred that waits for Twisted's reactor, which does not run "
            "here; write async def process_item"
        )
    outcome: list[Any] = []
    deferred.addBoth(outcome.append)
    failure = getattr(outcome[0], "raiseException", None)
    if failure is not None:
        failure()
    return outcome[0]
