"""TaskSource: from where a RequestRunner gets its tasks."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

from redis.exceptions import RedisError

from crawlframe.base.bounded_dict import BoundedDict
from crawlframe.errors import Fenced
from crawlframe.frontier import Frontier
from crawlframe.node.worker.commit.committer import Committer
from crawlframe.node.worker.crawl.task_crawl import TaskCrawl
from crawlframe.node.worker.task.identity_refresh import IdentityRefresh
from crawlframe.node.worker.task.open_task import CrawlMaker
from crawlframe.run.ledger import Ledger, LedgerAway, TaskSpec
from crawlframe.spider.task_info import Summary

log = logging.getLogger(__name__)
T = TypeVar("T")

MAX_RECIPES = 1000  # tasks whose recipes are followed
PAUSE = 1.0  # seconds between two tries to read from a database or Redis that is unavailable


class TaskSource(ABC):
    """Reads tasks, and makes their spiders."""

    @abstractmethod
    async def load_task(self, task: int) -> TaskSpec | None:
        """Returns the task, or None if the database does not have it."""

    @abstractmethod
    async def load_cookies(self, task: int) -> tuple[dict[str, str], int]:
        """Returns the task's shared cookies and their version."""

    @abstractmethod
    async def load_summary(self, task: int) -> Summary | None:
        """Returns the summary of a task that has only its last request left, else None."""

    @abstractmethod
    def make(self, spec: TaskSpec) -> TaskCrawl:
        """Returns the task with a new spider object. Raises errors of CrawlMaker."""


class StoredTasks(TaskSource):
    """Reads database and Redis on the connections of the commit thread, and repeats a read while
    they are unavailable."""

    def __init__(
        self,
        committer: Committer,
        frontier: Frontier,
        ledger: Ledger,
        maker: CrawlMaker,
        identity: IdentityRefresh,
        read: Callable[[TaskSpec], None] = lambda spec: None,
    ) -> None:
        """``read`` is called with each task that was read."""
        self._committer = committer
        self._frontier = frontier
        self._ledger = ledger
        self._maker = maker
        self._identity = identity
        # task -> name and version of its recipe
        self.recipes: BoundedDict[int, tuple[str, int]] = BoundedDict(MAX_RECIPES)
        self._read = read

    async def load_task(self, task: int) -> TaskSpec | None:
        return await on_commit_thread(self._committer, lambda: self._task(task))

    async def load_cookies(self, task: int) -> tuple[dict[str, str], int]:
        return await on_commit_thread(self._committer, lambda: self._frontier.cookies(task))

    async def load_summary(self, task: int) -> Summary | None:
        return await on_commit_thread(self._committer, lambda: self._summary(task))

    def make(self, spec: TaskSpec) -> TaskCrawl:
        if spec.recipe is not None:
            self.recipes[spec.task] = spec.spider, spec.recipe.number
        return self._maker.make(spec)

    def _task(self, task: int) -> TaskSpec | None:
        self._identity.load_first()
        spec = self._ledger.tasks.spec(task)
        if spec is not None:
            self._read(spec)
        return spec

    def _summary(self, task: int) -> Summary | None:
        counts = self._frontier.counts(task)
        return self._ledger.tasks.summary(task, counts) if counts and counts.nr == 1 else None


async def on_commit_thread(committer: Committer, job: Callable[[], T]) -> T:
    """Returns the result of ``job``, which runs in the commit thread and uses its connections. It
    is repeated while the database or Redis is unavailable."""
    while True:
        future: concurrent.futures.Future[T] = concurrent.futures.Future()

        def run(future: concurrent.futures.Future[T] = future) -> None:
            if not future.set_running_or_notify_cancel():
                return  # the caller was cancelled
            try:
                future.set_result(job())
            except Fenced:
                committer.leave()
            except Exception as error:
                future.set_exception(error)

        committer.call(run)
        try:
            return await asyncio.wrap_future(future)
        except (LedgerAway, RedisError) as error:
            log.warning("a request waits: %s", error)
            await asyncio.sleep(PAUSE)
