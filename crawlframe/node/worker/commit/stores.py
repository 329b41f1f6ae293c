"""Stores: the database and Redis, as the event loop of a worker asks them. The commit thread, which
owns the connections, answers."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
from collections.abc import Callable
from typing import Generic, TypeVar

from redis.exceptions import RedisError

from crawlframe.errors import ConfigError, Fenced, FrontierError
from crawlframe.frontier import Frontier
from crawlframe.node.worker.commit.committer import Committer
from crawlframe.run.ledger import Ledger, LedgerAway, LedgerRefused

log = logging.getLogger(__name__)

PAUSE = 1.0  # seconds between two tries to read from a database or Redis that is unavailable
GATHER_SECONDS = 0.002  # seconds for which questions are gathered, so that many cost one query
MAX_QUESTIONS = 64  # questions at a time

T = TypeVar("T")
Q = TypeVar("Q")
A = TypeVar("A")


class Stores:
    """``frontier`` and ``ledger`` are for jobs, which run in the commit thread."""

    def __init__(self, committer: Committer, frontier: Frontier, ledger: Ledger) -> None:
        self.call = committer.call
        self.leave = committer.leave
        self.frontier = frontier
        self.ledger = ledger

    async def ask(self, job: Callable[[], T]) -> T:
        """Returns the result of a job. It is repeated while the database or Redis is
        unavailable."""
        while True:
            try:
                return await self._run(job)
            except (LedgerAway, RedisError) as error:
                log.warning("a request waits: %s", error)
                await asyncio.sleep(PAUSE)

    async def follow(
        self,
        seconds: float,
        used: Callable[[], object],
        read: Callable[[], T],
        take: Callable[[T], object],
        what: str,
    ) -> None:
        """Calls ``take`` with the result of the job ``read``, after so many seconds and again and
        again, if something is ``used`` then. A failure leaves it as it was."""
        while True:
            await asyncio.sleep(seconds)
            if used():
                await self.refresh(read, take, what)

    async def refresh(self, read: Callable[[], T], take: Callable[[T], object], what: str) -> None:
        """Does so once."""
        known = LedgerAway, LedgerRefused, ConfigError, FrontierError, RedisError, OSError
        try:
            take(await self._run(read))
        except known as error:
            log.warning("%s stay as they were: %s", what, error)

    async def _run(self, job: Callable[[], T]) -> T:
        future: concurrent.futures.Future[T] = concurrent.futures.Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return  # the caller was cancelled
            try:
                future.set_result(job())
            except Fenced:
                self.leave()
            except Exception as error:
                future.set_exception(error)

        self.call(run)
        return await asyncio.wrap_future(future)


class Batches(Generic[Q, A]):
    """Asks many questions at once: questions wait while the commit thread is busy."""

    def __init__(self, stores: Stores, answer: Callable[[list[Q]], list[A]]) -> None:
        self._stores = stores
        self._answer = answer
        self._questions: list[Q] = []
        self._batch: asyncio.Task[list[A]] | None = None
        self._asking = asyncio.Lock()

    async def ask(self, question: Q) -> A:
        if self._batch is None or len(self._questions) >= MAX_QUESTIONS:
            self._questions = []
            self._batch = asyncio.get_running_loop().create_task(self._run(self._questions))
        place, batch = len(self._questions), self._batch
        self._questions.append(question)
        return (await asyncio.shield(batch))[place]

    async def _run(self, questions: list[Q]) -> list[A]:
        await asyncio.sleep(GATHER_SECONDS)
        async with self._asking:
            if self._questions is questions:
                self._batch = None
            return await self._stores.ask(lambda: self._answer(questions))
