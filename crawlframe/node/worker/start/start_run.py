"""StartRun: one run of a spider's ``start``. Results of a long run are recorded in parts as they
come."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterator
from typing import Any

from crawlframe.frontier.client.batches import MAX_ENTRIES
from crawlframe.node.worker.crawl.callbacks import Call, whole
from crawlframe.node.worker.start.start_parts import StartEnded, StartParts, StartRoom
from crawlframe.request.request import Request
from crawlframe.revisit.visit import FoundPage
from crawlframe.run.collector import Collector
from crawlframe.run.ledger import StartPart
from crawlframe.run.outcome import Outcome, Verdict
from crawlframe.run.reasons import CANCELLED

log = logging.getLogger(__name__)

PART = MAX_ENTRIES  # requests of a part at most: one script call admits them
PART_BYTES = 8 << 20  # of their records, from which a part is full
PART_EVERY = 1.0  # seconds after which the results so far become a part
FORGET_AFTER = 20 * PART  # requests yielded after which those dropped are forgotten, too
STEP = 0.05  # seconds after which other callbacks of the worker have their turn
POLL = 0.5  # seconds between two looks whether a paused start may continue


Step = Callable[[Call], Awaitable[str | None]]


class _Another(BaseException):  # no error of the authors' code
    """Raised when ``start`` does not repeat its earlier results."""


class StartRun:
    """One run of ``start``. After ``run``, ``collector`` has the results that no part recorded."""

    def __init__(
        self,
        call: Call,
        outcome: Outcome,
        collect: Callable[[], Collector],
        runs: StartRuns,
        alone: bool,
    ) -> None:
        self._call = call
        self._outcome = outcome
        self._collect = collect
        self._runs, self._parts = runs, runs.parts
        self._alone = alone
        self._number = 0  # of the next part
        self._skip = 0  # requests that earlier runs have recorded or dropped
        self._mark = b""  # of the last of them
        self._duplicates = 0  # that were dropped from parts
        self.collector = collect()

    async def run(self, step: Step) -> str:
        """As Starts.run, which has the collector too."""
        if last := await self._parts.last(self._outcome.task):
            self._number, self._skip = last.number + 1, last.position
            self._mark, self._duplicates = last.mark, last.duplicates
            log.info("start of task %d continues after %d requests", self._outcome.task, self._skip)
        try:
            return await self._take_all(step)
        except _Another:
            log.warning(
                "start of task %d does not yield what it yielded before, so it begins again; "
                "requests that the task knows are dropped",
                self._outcome.task,
            )
        self._outcome.end(Verdict.RELEASE)  # drops the collected results
        self._outcome.verdict = Verdict.DONE
        self._skip = 0
        self.collector = self._collect()
        return await self._take_all(step)

    async def _take_all(self, step: Step) -> str:
        self._begin()
        call = self._call._replace(function=self._some, take=self._take)
        closing: str | None = ""
        try:
            while not closing:
                closing = await step(call)
                if self._over or closing is None:
                    break
                if self._is_due():
                    await self._end_part()
                await self._look()
        finally:
            await self._close()
        if self._position < self._skip and not closing:
            raise _Another
        if self._number and self._outcome.results.follow_ups:
            await self._record()
        self._outcome.results.duplicates += self._duplicates
        return closing or ""

    def _begin(self) -> None:
        self._things: Iterator[Any] | AsyncIterator[Any] | None = None
        self._over = False
        self._position = 0  # requests yielded so far
        self._looked = time.monotonic()
        self._begin_part()

    # -- results of start -------------------------------------------------------------------------

    def _some(self) -> Any:
        """Runs in the loop, or in a thread: one step of ``start``, as a callback returns it."""
        self._until = time.monotonic() + STEP
        if self._things is None:
            return self._first_of(self._call.function())
        if isinstance(self._things, AsyncIterator):
            return self._awaited(self._things)
        return self._next(self._things)

    def _first_of(self, result: Any) -> Any:
        if isinstance(result, AsyncGenerator):
            self._things = result
            return self._awaited(result)
        if isinstance(result, Awaitable):
            return self._first_after(result)
        self._things = _all_of(result)
        return self._next(self._things)

    async def _first_after(self, result: Awaitable[Any]) -> AsyncGenerator[Any]:
        self._things = _all_of(await result)
        for thing in self._next(self._things):
            yield thing

    def _next(self, things: Iterator[Any]) -> Iterator[Any]:
        for thing in things:
            yield thing
            if self._pauses():
                return
        self._over = True

    async def _awaited(self, things: AsyncIterator[Any]) -> AsyncGenerator[Any]:
        async for thing in things:
            yield thing
            if self._pauses():
                return
        self._over = True

    def _pauses(self) -> bool:
        return self._is_full() or time.monotonic() >= self._until

    def _take(self, thing: Any) -> None:
        if not isinstance(thing, Request):
            self.collector.take(thing)
            return
        self._position += 1
        self._latest = thing.method, thing.url, thing.body
        if self._position > self._skip:
            before = len(self._outcome.results.follow_ups)
            self.collector.take(thing)
            if len(self._outcome.results.follow_ups) > before:
                self._bytes += len(self._outcome.results.follow_ups[-1].record)
        elif self._position == self._skip:
            if _mark(self._latest) != self._mark:
                raise _Another
            self._begin_part()

    async def _close(self) -> None:
        with contextlib.suppress(Exception):  # a thread may still be in it
            if isinstance(self._things, AsyncGenerator):
                await self._things.aclose()
            elif isinstance(self._things, Generator):
                self._things.close()

    # -- parts ------------------------------------------------------------------------------------

    def _begin_part(self) -> None:
        self._bytes = 0  # of the records of this part
        self._first = self._position
        self._since = time.monotonic()
        self.collector.forget(self._position)

    def _is_due(self) -> bool:
        if self._position - self._first >= FORGET_AFTER:
            return True
        if not (self._outcome.results.follow_ups or self._found):
            return False
        return self._is_full() or time.monotonic() - self._since >= PART_EVERY

    def _is_full(self) -> bool:
        most = max(len(self._outcome.results.follow_ups), len(self._found))
        return most >= PART or self._bytes >= PART_BYTES

    @property
    def _found(self) -> list[FoundPage]:
        visit = self._outcome.results.visit
        return [] if visit is None else visit.found

    async def _end_part(self) -> None:
        if self._outcome.results.follow_ups:
            await self._record()
            if self._alone:
                raise StartEnded(Verdict.RELEASE)
            self._looked = 0.0
        else:
            await self._record_found()
        self._begin_part()

    async def _record_found(self) -> None:
        if (visit := self._outcome.results.visit) is not None and visit.found:
            await self._parts.found(self._outcome.task, visit)
            visit.found = []

    async def _record(self) -> None:
        outcome = self._outcome
        await self._record_found()  # first: the next run does not find requests before the part
        self._duplicates += outcome.results.duplicates
        part = StartPart(
            outcome.task,
            outcome.rid,
            self._number,
            self._position,
            _mark(self._latest),
            self._duplicates,
            outcome.results.follow_ups,
        )
        written = await self._parts.record(outcome.host, part, outcome.results.fingerprints)
        if written.follow_ups:
            self._number += 1
        self._duplicates = written.duplicates
        outcome.results.follow_ups, outcome.results.fingerprints = [], []
        outcome.results.duplicates = 0

    async def _look(self) -> None:
        """Pauses while it must, now and then. Raises StartEnded if the run is over."""
        self._runs.check()
        if time.monotonic() - self._looked >= PART_EVERY:
            await self._runs.wait(self._outcome.task)
            self._looked = time.monotonic()


class StartRuns:
    """The runs of ``start`` in one worker, whose parts go to ``parts``."""

    def __init__(self, parts: StartParts) -> None:
        self.parts = parts
        self._leaving = asyncio.Event()

    def leave(self) -> None:
        """The worker ends: root requests are given back, for others to continue."""
        self._leaving.set()

    def check(self) -> None:
        """Raises StartEnded if the worker ends."""
        if self._leaving.is_set():
            raise StartEnded(Verdict.RELEASE)

    async def rest(self) -> None:
        """Pauses for a moment. Raises StartEnded if the worker ends."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._leaving.wait(), POLL)
        self.check()

    async def wait(self, task: int) -> None:
        """Returns when the start of a task may continue. Raises StartEnded if it is over."""
        self.check()
        while (room := await self.parts.room(task)) is StartRoom.WAIT:
            await self.rest()
        if room is StartRoom.CANCELLED:
            raise StartEnded(Verdict.ERROR, CANCELLED)

    async def run(
        self,
        call: Call,
        outcome: Outcome,
        collect: Callable[[], Collector],
        step: Step,
        *,
        alone: bool,
    ) -> tuple[str, Collector]:
        """Runs ``start`` to its end. ``step`` runs one step of it as a callback, and returns the
        reason for which the step closes the task, "" if it does not, None if it failed and the
        results so far are kept. Returns this reason, and the collector of results that no part
        recorded. If the request runs ``alone``, it returns to the queue after the first part, for
        it has proved to be harmless. Raises StartEnded, and errors of ``start``."""
        run = StartRun(call, outcome, collect, self, alone)
        return await run.run(step), run.collector


def _all_of(result: Any) -> Iterator[Any]:
    if result is None or isinstance(result, dict | Request):
        return iter((result,))
    return whole(result)


def _mark(request: tuple[str, str, bytes | None]) -> bytes:
    method, url, body = request
    start = b"%s\0%s\0" % (method.encode(), url.encode("utf-8", "surrogatepass"))
    return hashlib.blake2b(start + (body or b""), digest_size=16).digest()
