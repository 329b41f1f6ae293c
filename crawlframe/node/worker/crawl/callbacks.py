"""Callbacks: runs the methods of spiders. In the event loop, which is cheapest, as long as they are
fast; a method that has been slow runs in threads from then on."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import logging
import sys
import time
import types
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

from crawlframe.conf import Settings
from crawlframe.errors import SpiderError
from crawlframe.fetch.middlewares import Watch
from crawlframe.node.running_marks import LOOP, SIZE, STEPS, THREADS
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlframe.text.article import OFFLOAD

log = logging.getLogger(__name__)

SLOW_SECONDS = 0.1  # seconds of one call; a slower callback is no longer run in the event loop
WARNING_SECONDS = 1.0  # of one step of an async callback, which stays in the loop
MAX_CALLBACKS = 8  # computing callbacks that may continue next to the callback whose turn it is
SWITCH = 0.001  # seconds until another thread gets the processor while callbacks compute
MAX_NAMES = 10_000  # slow callbacks
AT_A_TIME = 4  # callbacks in one iteration of the event loop


class Call(NamedTuple):
    """``function`` is the callback ``name`` with its arguments; ``take`` is called with everything
    that it returns or yields."""

    task: int
    name: str
    rid: bytes
    function: Callable[[], Any]
    take: Callable[[Any], None]


class Callbacks:
    """The callbacks of one worker. ``mark`` is called with (slot, rid of the request whose callback
    is running, b"" when none is); ``on_slow`` with (task, callback, whether it computes) once the
    cause of a slow one is known.

    Callbacks that wait (for a file, a database, another server) run in as many threads as there are
    requests in flight. Computing callbacks take turns, because the interpreter runs one thread at a
    time and the event loop must get its share; while a long one runs, a few others may start."""

    def __init__(
        self,
        settings: Settings,
        mark: Callable[[int, bytes], None],
        on_slow: Callable[[int, str, bool], None] = lambda task, name, computes: None,
    ) -> None:
        self._on_slow = on_slow
        self._deadline = settings.deadline
        self._mark = mark
        self._threads = ThreadPoolExecutor(settings.concurrency, thread_name_prefix="callback")
        self._slots = [*range(THREADS, THREADS + settings.concurrency)]
        self._steps = 0
        self._began: dict[int, tuple[float, bytes]] = {}  # slot -> time.monotonic(), rid
        self._throttle = CallbackThrottle()
        self._computing = _Queue()
        self._slow: dict[tuple[int, str], bool] = {}  # (task, callback) -> whether it computes
        self._reported: set[tuple[int, str]] = set()
        # Tasks with this process for themselves, whose code may not allow for threads.
        self.single_threaded: set[int] = set()

    def expect(self, task: int, name: str, computes: bool) -> None:
        """Marks a callback as slow, because it computes or because it waits."""
        if task in self.single_threaded:
            return
        if len(self._slow) >= MAX_NAMES:
            self._slow.clear()
            self._reported.clear()
        if computes:
            sys.setswitchinterval(SWITCH)
        self._slow[task, name] = computes

    def is_slow(self, task: int, name: str) -> bool:
        """Whether this callback is known to be slow."""
        return bool(self._slow) and (task, name) in self._slow

    async def run(self, call: Call) -> None:
        """Runs a callback. Raises the errors of its ``function`` and ``take``."""
        computes = self._slow.get((call.task, call.name)) if self._slow else None
        if computes is None:
            await self._throttle.acquire()
            unfinished = self._in_loop(call)
        elif computes:
            async with self._computing.next():
                unfinished = await self._in_thread(call)
        else:
            unfinished = await self._in_thread(call)
        if unfinished is not None:
            OFFLOAD.set(partial(self._offload, call.rid))
            async with asyncio.timeout(self._deadline):
                await self._finish(unfinished, call)

    def overdue(self) -> bytes | None:
        """A request whose callback has been in a thread for longer than the deadline, or None.
        Threads cannot be ended, so the worker must be; from then on only this request is marked."""
        limit = time.monotonic() - self._deadline
        for slot, (began, rid) in [*self._began.items()]:
            if began < limit:
                for other in [*self._began]:
                    if other != slot:
                        self._mark(other, b"")
                return rid
        return None

    # -- functions and generators -----------------------------------------------------------------

    def _in_loop(self, call: Call) -> Any:
        began = time.monotonic()
        self._mark(LOOP, call.rid)
        try:
            return _collect(call.function, call.take)
        finally:
            self._mark(LOOP, b"")
            seconds = time.monotonic() - began
            if seconds > SLOW_SECONDS and call.task not in self.single_threaded:
                self.expect(call.task, call.name, computes=True)  # until it has run in a thread
                log.info(
                    "callback %s took %.2f s; from now on it runs in threads", call.name, seconds
                )

    async def _in_thread(self, call: Call) -> Any:
        loop = asyncio.get_running_loop()

        def work() -> Any:
            began, worked = time.monotonic(), time.thread_time()
            try:
                with self.in_thread(call.rid):
                    return _collect(call.function, call.take)
            finally:
                if time.monotonic() - began > SLOW_SECONDS:
                    computes = time.thread_time() - worked > SLOW_SECONDS
                    loop.call_soon_threadsafe(self._learn, call.task, call.name, computes)

        # With the context, from which self.log and self.stats find the request.
        return await loop.run_in_executor(self._threads, contextvars.copy_context().run, work)

    async def _offload(self, rid: bytes, work: Callable[[], Any]) -> Any:
        """Runs a function that an async callback awaits, as if it were a callback that computes."""
        sys.setswitchinterval(SWITCH)

        def run() -> Any:
            with self.in_thread(rid):
                return work()

        async with self._computing.next():
            context = contextvars.copy_context()
            return await asyncio.get_running_loop().run_in_executor(self._threads, context.run, run)

    @contextlib.contextmanager
    def in_thread(self, rid: bytes) -> Iterator[None]:
        """A context for authors' code of a request in the current thread: it is marked, and overdue
        when it takes longer than the deadline."""
        if not self._slots:  # held by threads whose requests were abandoned
            yield
            return
        slot = self._slots.pop()
        self._began[slot] = time.monotonic(), rid
        self._mark(slot, rid)
        try:
            yield
        finally:
            self._mark(slot, b"")
            del self._began[slot]
            self._slots.append(slot)

    def _learn(self, task: int, name: str, computes: bool) -> None:
        if (task, name) not in self._reported or self._slow.get((task, name)) != computes:
            self.expect(task, name, computes)
            self._reported.add((task, name))
            self._on_slow(task, name, computes)

    # -- coroutines and async generators ----------------------------------------------------------

    async def _finish(self, unfinished: Any, call: Call) -> None:
        """Awaits a coroutine or async generator. These stay in the event loop, which they leave
        while they wait."""
        what = f"callback {call.name}"
        if isinstance(unfinished, AsyncGenerator):
            while True:
                try:
                    thing = await self.stepwise(anext(unfinished), call.rid, what)
                except StopAsyncIteration:
                    return
                call.take(thing)
        result = await self.stepwise(unfinished, call.rid, what)
        self._mark(LOOP, call.rid)
        try:
            _collect(lambda: result, call.take)
        finally:
            self._mark(LOOP, b"")

    @types.coroutine
    def stepwise(
        self, awaitable: Awaitable[Any], rid: bytes, what: str
    ) -> Generator[Any, Any, Any]:
        """Runs ``await awaitable``, marked while it holds the event loop: other code runs in
        between. ``what`` names it in the warning that it holds the loop for too long."""
        steps: Any = awaitable.__await__()
        step: Callable[[], Any] = steps.__next__
        while True:
            began = time.monotonic()
            self._steps += 1
            self._mark(STEPS, self._steps.to_bytes(SIZE))
            self._mark(LOOP, rid)
            try:
                waits_for = step()
            except StopIteration as end:
                return end.value
            finally:
                self._mark(LOOP, b"")
                if (seconds := time.monotonic() - began) > WARNING_SECONDS:
                    log.warning(
                        "%s held the event loop for %.1f s, and with it all requests of this "
                        "worker; let it wait with await, or make it a plain method",
                        what,
                        seconds,
                    )
            try:
                yield waits_for
                step = steps.__next__
            except BaseException as error:
                step = _throwing(steps, error)


class _Queue:
    """Lets computing callbacks take turns: one at a time, but never for ever behind a long one."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._long = 0  # callbacks that continue although their turn is over

    @contextlib.asynccontextmanager
    async def next(self) -> AsyncGenerator[None]:
        await self._lock.acquire()
        overtaken = False

        def give_way() -> None:
            nonlocal overtaken
            if self._long < MAX_CALLBACKS:
                overtaken = True
                self._long += 1
                self._lock.release()

        timer = asyncio.get_running_loop().call_later(SLOW_SECONDS, give_way)
        try:
            yield
        finally:
            timer.cancel()
            if overtaken:
                self._long -= 1
            else:
                self._lock.release()


def _throwing(steps: Any, error: BaseException) -> Callable[[], Any]:
    return lambda: steps.throw(error)


def _collect(function: Callable[[], Any], take: Callable[[Any], None]) -> Any:
    """Passes on the results of a plain function; returns an awaitable, or None."""
    try:
        result = function()
    except StopIteration as error:  # coroutines and futures give it another meaning
        message = "the callback raised StopIteration; give next() a default value"
        raise RuntimeError(message).with_traceback(error.__traceback__) from None
    if type(result) is not types.GeneratorType:
        if inspect.isawaitable(result) or isinstance(result, AsyncGenerator):
            return result
        if result is None or isinstance(result, dict | Request):
            take(result)
            return None
    for thing in whole(result):
        take(thing)
    return None


def whole(things: Iterable[Any]) -> Iterator[Any]:
    """Yields the results. Raises SpiderError if a generator returns a value as well."""
    lost: Any = yield from things  # type: ignore[func-returns-value]
    if lost is not None:
        raise SpiderError(
            f"the callback yields, so its return value is lost: {lost!r:.80}; write yield from"
        )


class CallbackThrottle:
    """Limits the callbacks per iteration of one event loop; first come, first served."""

    def __init__(self) -> None:
        self._left = AT_A_TIME
        self._due = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def acquire(self) -> None:
        """Returns when the caller may hold the event loop."""
        if self._left and not self._waiting:
            self._left -= 1
            self._schedule()
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._schedule()
        await turn

    def _schedule(self) -> None:
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        self._due = False
        self._left = AT_A_TIME
        while self._waiting and self._left:
            turn = self._waiting.popleft()
            if not turn.done():  # otherwise the waiting caller was cancelled
                turn.set_result(None)
                self._left -= 1
        if self._waiting or not self._left:
            self._schedule()


class MiddlewareWatch(Watch):
    """Marks the middlewares of one request as they run, as Callbacks does for its callback."""

    def __init__(self, callbacks: Callbacks, rid: bytes, spider: str) -> None:
        self._callbacks = callbacks
        self._rid = rid
        self._what = f"a middleware of spider {spider}"

    def in_loop(self, awaitable: Awaitable[Response]) -> Awaitable[Response]:
        return self._callbacks.stepwise(awaitable, self._rid, self._what)

    def in_thread(self) -> contextlib.AbstractContextManager[None]:
        return self._callbacks.in_thread(self._rid)
