"""Middlewares: the authors' layers around one download, the outermost first."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

from crawlframe.base.urls import host_of, normalise
from crawlframe.errors import CrawlframeError, FetchError, HostChanged, MiddlewareError
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlframe.spider.middleware import CallNext, name_of

DEADLINE = 120.0  # seconds that a layer may take itself, not counting its calls of the next one
# Parts of a request that belong to its callback or to its place in the frontier.
FIXED = ("callback", "errback", "cb_kwargs", "priority", "dont_filter", "depth")
FIXED_OPTIONS = ("retries", "handle", "proxy")


class Watch:
    """Is notified of the authors' code that runs. This one ignores it."""

    def in_loop(self, awaitable: Awaitable[Response]) -> Awaitable[Response]:
        """Wraps ``awaitable``, whose steps run in the event loop."""
        return awaitable

    def in_thread(self) -> contextlib.AbstractContextManager[None]:
        """A context in which the current thread runs a layer."""
        return contextlib.nullcontext()


class MiddlewareFailed(CrawlframeError):
    """A middleware raised ``error``, which is not a FetchError. ``name`` is the innermost one that
    it came from."""

    def __init__(self, name: str, error: BaseException) -> None:
        super().__init__(f"middleware {name}: {type(error).__name__}: {error}")
        self.name = name
        self.error = error


class Layer(NamedTuple):
    """A middleware. ``waits``: whether its fetch is a coroutine."""

    fetch: Callable[..., Any]
    name: str
    waits: bool


class Middlewares:
    """The middlewares of one spider in one process. Classes are instantiated here."""

    def __init__(self, middlewares: Iterable[Any], deadline: float = DEADLINE) -> None:
        """``deadline``: seconds that a coroutine may take itself before it is cancelled."""
        self.deadline = deadline
        self.layers: list[Layer] = []
        # For layers that are not coroutines. A thread is made when none is idle, so at most one per
        # request in such a layer.
        self.threads = ThreadPoolExecutor(100_000, thread_name_prefix="middleware")
        for given in middlewares:
            fetch = (given() if isinstance(given, type) else given).fetch
            self.layers.append(Layer(fetch, name_of(given), inspect.iscoroutinefunction(fetch)))

    async def fetch(
        self, request: Request, download: CallNext, watch: Watch | None = None
    ) -> Response:
        """The response that the outermost layer returns; the innermost calls ``download``.

        Raises FetchError, MiddlewareFailed, and errors of ``download``."""
        way = _Way(self, request, download, watch or Watch())
        try:
            return await way.watch.in_loop(way.through(0, request))
        except FetchError:
            raise
        except BaseException as error:  # authors' code may raise anything, SystemExit included
            if not way.culprit or (isinstance(error, asyncio.CancelledError) and is_cancelled()):
                raise
            raise MiddlewareFailed(way.culprit, error) from error


class _Way:
    """A request's way through the layers. ``culprit`` is the layer that raised the last error, ""
    for the download."""

    def __init__(
        self, middlewares: Middlewares, request: Request, download: CallNext, watch: Watch
    ) -> None:
        self.watch = watch
        self.culprit = ""
        self._error: BaseException | None = None
        self.middlewares = middlewares
        self._download = download
        self._url, self._host = request.url, request.host
        self._fixed = _fixed_parts(request)

    async def through(self, number: int, request: Request) -> Response:
        """The response, from the layer with this number inwards."""
        layers = self.middlewares.layers
        name = layers[number].name if number < len(layers) else ""
        try:
            if not name:
                return await self._download(request)
            turn = _Turn(self, layers[number], number)
            response = await turn.take(request)
            if not isinstance(response, Response):
                raise MiddlewareError(
                    f"fetch returned {response!r:.80}; return a Response, such as that of call_next"
                )
            return response
        except BaseException as error:
            if error is not self._error:  # else it came from further inside
                self._error, self.culprit = error, name
            raise

    def check(self, request: Request) -> None:
        """Checks that a layer may pass on this request. Raises MiddlewareError or BadRequest."""
        if not isinstance(request, Request):
            raise MiddlewareError(f"call_next takes a Request, not {request!r:.80}")
        if request.url != self._url:
            request.url = normalise(request.url)
            if (host := host_of(request.url)) != self._host:
                raise HostChanged(
                    f"a middleware must not change the host, here from {self._host} to {host}: it "
                    "would bypass the host's delay and concurrency; yield a Request for it"
                )
        request.check()
        for name, before, now in zip(
            FIXED + FIXED_OPTIONS, self._fixed, _fixed_parts(request), strict=True
        ):
            if before != now:
                raise MiddlewareError(
                    f"a middleware must not change {name}, here from {before!r:.80} to "
                    f"{now!r:.80}; set it where the request is made, or in the spider's follow"
                )


class _Turn:
    """A layer at work on one request."""

    def __init__(self, way: _Way, layer: Layer, number: int) -> None:
        self._way = way
        self._layer = layer
        self._number = number
        self._loop = asyncio.get_running_loop()
        self._clock: asyncio.Timeout | None = None
        self._next: asyncio.Task[Any] | None = None  # the task that runs the layers inside
        self._over = False

    async def take(self, request: Request) -> Any:
        """The layer's response."""
        try:
            if self._layer.waits:
                response = await self._in_loop(request)
            else:
                response = await self._in_thread(request)
            if self._next is not None:
                raise MiddlewareError("fetch returned while call_next was under way; await it")
            return response
        finally:
            self._over = True
            if self._next is not None:
                self._next.cancel()

    async def _in_loop(self, request: Request) -> Any:
        deadline = self._way.middlewares.deadline
        try:
            async with asyncio.timeout(deadline) as self._clock:
                return await self._layer.fetch(request, self._call_next)
        except TimeoutError:
            if self._clock is None or not self._clock.expired():
                raise
            raise MiddlewareError(
                f"fetch took longer than {deadline:g} s, not counting call_next"
            ) from None

    async def _call_next(self, request: Request) -> Response:
        if self._over:
            raise MiddlewareError("call_next was called after fetch had returned")
        if self._next is not None:
            raise MiddlewareError("call_next was called while it was under way; one at a time")
        self._way.check(request)
        clock = self._clock
        left = clock.when() - self._loop.time() if clock else 0.0  # type: ignore[operator]
        self._next = asyncio.current_task()
        if clock:
            clock.reschedule(None)  # only its own time counts
        try:
            return await self._way.through(self._number + 1, request)
        finally:
            self._next = None
            if clock and not self._over:
                clock.reschedule(self._loop.time() + left)

    async def _in_thread(self, request: Request) -> Any:
        calls: list[Future[Response | BaseException]] = []
        watched = contextlib.ExitStack()  # covers the thread
        watch = self._way.watch

        async def go_on(request: Request) -> Response | BaseException:
            try:
                return await watch.in_loop(self._call_next(request))
            except asyncio.CancelledError:
                raise
            except BaseException as error:  # SystemExit out of a task would end the event loop
                return error

        def call_next(request: Request) -> Response:
            if _running_loop() is self._loop:
                raise MiddlewareError("fetch is a plain def, so its call_next must not be awaited")
            watched.close()
            call = asyncio.run_coroutine_threadsafe(go_on(request), self._loop)
            calls.append(call)
            try:
                got = call.result()
            finally:
                watched.enter_context(watch.in_thread())
            if isinstance(got, BaseException):
                raise got
            return got

        def work() -> Any:
            with watched:
                watched.enter_context(watch.in_thread())
                return self._layer.fetch(request, call_next)

        context = contextvars.copy_context()
        try:
            response = await self._loop.run_in_executor(
                self._way.middlewares.threads, context.run, work
            )
        finally:
            for call in calls:
                call.cancel()  # no effect on one that is done
        if inspect.iscoroutine(response):
            response.close()
            raise MiddlewareError("fetch returned a coroutine; write async def fetch")
        return response


def layers_of(spider: object) -> tuple[Any, ...]:
    """The layers that belong to a spider's object, and not to its class; inside of those."""
    layers: tuple[Any, ...] = getattr(spider, "_layers", tuple)()
    return layers


def _fixed_parts(request: Request) -> list[Any]:
    parts = [getattr(request, name) for name in FIXED]
    return parts + [getattr(request.options, name) for name in FIXED_OPTIONS]


def _running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop of the current thread, or None."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def is_cancelled() -> bool:
    """Whether this asyncio task is being cancelled: authors' code may raise CancelledError, too."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
