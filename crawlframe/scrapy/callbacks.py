"""ScrapyCallbacks: Scrapy's callbacks and errbacks, with the spider middlewares of the project
around them, as callbacks of ours."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any

from scrapy import Request as ScrapyRequest
from scrapy import signals
from scrapy.exceptions import CloseSpider
from scrapy.utils.spider import iterate_spider_output
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from crawlframe.errors import BadRequest, CloseTask, SpiderError
from crawlframe.scrapy import components
from crawlframe.scrapy.crawler import SCHEDULED, PortedCrawler
from crawlframe.scrapy.requests import Translator

OUTPUT, OUTPUT_ASYNC = "process_spider_output", "process_spider_output_async"


class ScrapyCallbacks:
    """Runs the callbacks of Scrapy's requests. Results are ours: items as they are, Requests."""

    def __init__(self, crawler: PortedCrawler, translator: Translator) -> None:
        self._crawler = crawler
        self._spider: Any = crawler.spider
        self._engine: Any = crawler.engine
        self._translator = translator
        middlewares = components.made(crawler, components.SPIDER)
        inner = middlewares[::-1]
        # Scrapy's own only look at requests that a response led to.
        authors = [one for one in inner if not type(one).__module__.startswith("scrapy.")]
        self._inputs = components.methods(middlewares, "process_spider_input", self._spider)
        self._starts = components.methods(authors, "process_start", self._spider)
        self._old_starts = components.methods(inner, "process_start_requests", self._spider)
        self._layers = [_Layer(one, self._spider) for one in inner]
        self._layers = [one for one in self._layers if one.output or one.exception]

    def begin(self) -> Any:
        """The results of the spider's ``start``, or of the older ``start_requests``."""
        kind = type(self._spider)
        old = getattr(self._spider, "start_requests", None)
        if old is not None and _defines(kind, "start_requests") > _defines(kind, "start"):
            result: Any = old()
            for function in self._old_starts:
                result = function(result)
            if not self._starts:
                return self._passed(result, None)
            result = _async(result)
        else:
            result = self._spider.start()
        for function in self._starts:
            result = function(result)
        return self._passed_async(result, None)

    def call(self, function: Callable[..., Any], response: Any, named: dict[str, Any]) -> Any:
        """The results of a callback for a response of Scrapy."""
        self._check_closing()
        try:
            for check in self._inputs:
                check(response=response)
            result = function(response, **named)
        except Exception as error:
            return self._recovered(error, response, 0)
        return self._led_to(result, response)

    def fail(self, function: Callable[..., Any], failure: Failure, response: Any) -> Any:
        """The results of an errback."""
        self._check_closing()
        try:
            result = function(failure)
        except Exception as error:
            raise self._ended(error, response or failure) from error
        if response is not None:
            return self._led_to(result, response)
        # Scrapy's middlewares are around responses.
        if not (inspect.isawaitable(result) or isinstance(result, AsyncIterator)):
            result = _async(iterate_spider_output(result))
        return self._passed_async(result, failure)

    # -- results ----------------------------------------------------------------------------------

    def _led_to(self, result: Any, response: Any) -> Any:
        if isinstance(result, Deferred):
            raise SpiderError("a callback returned a Deferred; write it with async def")
        if inspect.isawaitable(result) or isinstance(result, AsyncIterator):
            return self._through_async(result, response)
        if any(layer.waits for layer in self._layers):
            return self._through_async(result, response)
        return self._through(iterate_spider_output(result), response, 0)

    def _through(self, result: Iterable[Any], response: Any, first: int) -> Iterator[Any]:
        """The result of the spider after the middlewares from this number on."""
        try:
            for layer in self._layers[first:]:
                if layer.output is not None:
                    result = layer.output(response=response, result=result)
            yield from self._passed(result, response)
        except Exception as error:
            yield from self._recovered(error, response, first)

    def _recovered(self, error: Exception, response: Any, first: int) -> Iterator[Any]:
        """The results of a middleware for an error. Raises it if no middleware handles it."""
        for request in self._asked():
            yield self._ours(request, response)
        if isinstance(error, CloseSpider | CloseTask):
            raise self._ended(error, response) from error
        for number, layer in enumerate(self._layers[first:], first):
            if layer.exception is None:
                continue
            result = layer.exception(response=response, exception=error)
            if result is not None:
                yield from self._through(result, response, number + 1)
                return
        raise self._ended(error, response) from error

    async def _through_async(self, result: Any, response: Any) -> AsyncIterator[Any]:
        try:
            if inspect.isawaitable(result):
                result = await result
            if not isinstance(result, AsyncIterator):
                result = _async(iterate_spider_output(result))
            for layer in self._layers:
                result = await layer.around(response, result)
            async for thing in result:
                yield self._ours(thing, response)
        except Exception as error:
            for thing in self._recovered(error, response, 0):
                yield thing
            return
        for request in self._asked():
            yield self._ours(request, response)
        self._check_closing()

    def _passed(self, result: Iterable[Any], response: Any) -> Iterator[Any]:
        try:
            for thing in result:
                yield self._ours(thing, response)
        except CloseSpider as close:
            raise CloseTask(close.reason) from close
        for request in self._asked():
            yield self._ours(request, response)
        self._check_closing()

    async def _passed_async(self, result: Any, response: Any) -> AsyncIterator[Any]:
        try:
            if inspect.isawaitable(result):
                result = _async(iterate_spider_output(await result))
            async for thing in result:
                yield self._ours(thing, response)
        except Exception as error:
            raise self._ended(error, response) from error
        for request in self._asked():
            yield self._ours(request, response)
        self._check_closing()

    def _asked(self) -> list[ScrapyRequest]:
        """The requests that were queued by ``crawler.engine.crawl``."""
        asked: list[ScrapyRequest] = self._engine.asked
        self._engine.asked = []
        return asked

    def _check_closing(self) -> None:
        """Raises CloseTask if ``crawler.engine.close_spider`` was called."""
        if self._engine.closing:
            raise CloseTask(self._engine.closing)

    def _ours(self, thing: Any, response: Any) -> Any:
        if not isinstance(thing, ScrapyRequest):
            return thing
        try:
            ours = self._translator.ours(thing)
        except BadRequest as error:  # only this one is left out
            return error
        self._crawler.note(SCHEDULED)
        if self._crawler.listens(signals.request_scheduled):
            self._crawler.send(signals.request_scheduled, request=thing, spider=self._spider)
        return ours

    def _ended(self, error: Exception, response: Any) -> Exception:
        if isinstance(error, CloseSpider):
            return CloseTask(error.reason)
        if not isinstance(error, CloseTask):
            for name in ("count", type(error).__name__):
                self._crawler.stats.inc_value(f"spider_exceptions/{name}")
            if self._crawler.listens(signals.spider_error):
                told = {"failure": Failure(error), "response": response, "spider": self._spider}
                self._crawler.send(signals.spider_error, **told)
        return error


class _Layer:
    """A spider middleware. ``output`` takes and returns plain iterables, or if it ``waits`` async
    iterables."""

    def __init__(self, middleware: Any, spider: Any) -> None:
        self.exception = components.method(middleware, "process_spider_exception", spider)
        self.output = components.method(middleware, OUTPUT, spider)
        self.output_async = components.method(middleware, OUTPUT_ASYNC, spider)
        self.waits = components.waits(middleware, OUTPUT)
        if self.waits:
            self.output_async = self.output

    async def around(self, response: Any, result: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """The async result after this middleware; for a plain one it is gathered before."""
        if self.output_async is not None:
            made: AsyncIterator[Any] = self.output_async(response=response, result=result)
            return made
        if self.output is None:
            return result
        return _async(self.output(response=response, result=[thing async for thing in result]))


async def _async(things: Iterable[Any]) -> AsyncIterator[Any]:
    for thing in things:
        yield thing


def _defines(kind: type, name: str) -> int:
    """The distance from ``object`` of the class that defines it; -1 if none does."""
    mro = kind.__mro__[::-1]
    return max((place for place, one in enumerate(mro) if name in vars(one)), default=-1)
