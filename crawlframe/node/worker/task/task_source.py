"""TaskSource: from where a RequestRunner gets its tasks."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable

from crawlframe.base.bounded_dict import BoundedDict
from crawlframe.identity.identity import Identity
from crawlframe.node.worker.commit.stores import Stores
from crawlframe.node.worker.crawl.task_crawl import TaskCrawl
from crawlframe.node.worker.task.open_task import CrawlMaker
from crawlframe.run.ledger import TaskSpec
from crawlframe.spider.task_info import Summary

log = logging.getLogger(__name__)

MAX_RECIPES = 1000  # tasks whose recipes are followed
IDENTITY_SECONDS = 5.0  # seconds between two reads of keys and credentials
RECIPES_SECONDS = 1.0  # seconds between two looks for new versions of recipes


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
    """Reads database and Redis. ``identity``: has the keys and credentials, without which nothing
    is fetched. ``read`` is called with each task that was read."""

    def __init__(
        self,
        stores: Stores,
        maker: CrawlMaker,
        identity: Identity,
        read: Callable[[TaskSpec], None] = lambda spec: None,
    ) -> None:
        self._stores = stores
        self._frontier = stores.frontier
        self._ledger = stores.ledger
        self._maker = maker
        self._identity = identity
        # task -> name and version of its recipe
        self._recipes: BoundedDict[int, tuple[str, int]] = BoundedDict(MAX_RECIPES)
        self._read = read

    async def load_task(self, task: int) -> TaskSpec | None:
        return await self._stores.ask(lambda: self._task(task))

    async def load_cookies(self, task: int) -> tuple[dict[str, str], int]:
        return await self._stores.ask(lambda: self._frontier.cookies(task))

    async def load_summary(self, task: int) -> Summary | None:
        return await self._stores.ask(lambda: self._summary(task))

    def make(self, spec: TaskSpec) -> TaskCrawl:
        if spec.recipe is not None:
            self._recipes[spec.task] = spec.spider, spec.recipe.number
        return self._maker.make(spec)

    async def watch_identity(self) -> None:
        """Follows changes of the keys and credentials, until it is cancelled."""
        known, read = self._identity, self._ledger.access.identity
        await self._stores.follow(
            IDENTITY_SECONDS, lambda: known.is_loaded, read, known.load, "keys and credentials"
        )

    async def watch_recipes(self, forget: Callable[[int], None]) -> None:
        """Calls ``forget`` with each task whose recipe has another version now, until it is
        cancelled: requests that start later run with it, as after a reload. The next one brings the
        task back here."""

        def read() -> dict[str, int]:
            names = {name for name, _ in [*self._recipes.values()]}
            return self._ledger.tasks.recipe_numbers(names)

        def take(found: dict[str, int]) -> None:
            for task, (name, number) in [*self._recipes.items()]:
                if found.get(name, number) != number:
                    version = found[name]
                    log.info("task %d continues with version %d of recipe %s", task, version, name)
                    del self._recipes[task]
                    forget(task)

        await self._stores.follow(RECIPES_SECONDS, lambda: self._recipes, read, take, "recipes")

    def _task(self, task: int) -> TaskSpec | None:
        if not self._identity.is_loaded:
            self._identity.load(self._ledger.access.identity())
        spec = self._ledger.tasks.spec(task)
        if spec is not None:
            self._read(spec)
        return spec

    def _summary(self, task: int) -> Summary | None:
        counts = self._frontier.counts(task)
        return self._ledger.tasks.summary(task, counts) if counts and counts.nr == 1 else None
