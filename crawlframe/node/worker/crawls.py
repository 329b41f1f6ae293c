"""Crawls: the tasks that a worker has taken up, each with its spider."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Callable, Container
from typing import Any

from crawlframe.errors import ArgumentError, ConfigError, UnknownSpider
from crawlframe.node.running_marks import LOOP
from crawlframe.node.worker.callbacks import Callbacks
from crawlframe.node.worker.crawl import Park, TaskCrawl
from crawlframe.node.worker.failures import trim
from crawlframe.node.worker.opening import is_open, let_go, take_up
from crawlframe.node.worker.task_source import TaskSource
from crawlframe.stats import OPENING, RUNNING

MAX_CRAWLS = 1000


class Crawls:
    """Use it from one event loop. ``mark`` is that of Callbacks. ``inline`` makes what a spider
    fetches with inside of its callbacks."""

    def __init__(
        self,
        source: TaskSource,
        callbacks: Callbacks,
        mark: Callable[[int, bytes], None],
        inline: Callable[[TaskCrawl], Any],
    ) -> None:
        self._source = source
        self._callbacks = callbacks
        self._mark = mark
        self._inline = inline
        self._crawls: dict[int, asyncio.Future[TaskCrawl]] = {}
        self._leaving: set[asyncio.Future[None]] = set()

    def forget(self, task: int) -> None:
        """Lets the next request of the task open it again."""
        self._crawls.pop(task, None)

    async def get(self, task: int, rid: bytes) -> TaskCrawl:
        """Returns the task, opened for request ``rid`` if it is the first one. Raises Park, and
        what ``take_up`` raises."""
        future = self._crawls.get(task)
        if future is None:
            future = self._crawls[task] = asyncio.ensure_future(self._open(task, rid))
            if len(self._crawls) > MAX_CRAWLS:
                self._drop_one()
        try:
            crawl = await asyncio.shield(future)
            crawl.used = time.monotonic()
            return crawl
        except BaseException:
            if future.done():
                self._crawls.pop(task, None)  # the next request tries again
            raise

    async def release(self, busy: Container[int] = (), idle: float = 0.0) -> None:
        """Lets go of tasks, as ``let_go`` does."""
        await let_go(self._crawls, busy, idle)
        await asyncio.gather(*self._leaving)

    def _drop_one(self) -> None:
        """Lets go of the task that has waited the longest for a request."""
        opened = {task: future for task, future in self._crawls.items() if is_open(future)}
        if opened:
            task = min(opened, key=lambda one: opened[one].result().used)
            leaving = asyncio.ensure_future(let_go({task: self._crawls.pop(task)}))
            self._leaving.add(leaving)
            leaving.add_done_callback(self._leaving.discard)

    async def _open(self, task: int, rid: bytes) -> TaskCrawl:
        try:
            spec = await self._source.load_task(task)
        except ConfigError as error:
            raise _unfit(trim(str(error), 500)) from None
        if spec is None:
            raise _unfit(f"task {task} is not in the database")
        OPENING.set(task)
        RUNNING.set(None)  # not for a single request: all that arrive meanwhile wait for it
        self._mark(LOOP, rid)
        try:
            crawl = self._source.make(spec)
        except (UnknownSpider, ArgumentError) as error:
            raise Park(trim(str(error), 500)) from None
        except BaseException as error:  # the author's __init__ and properties run here
            what = "".join(traceback.format_exception_only(error)).strip()
            raise Park(trim(f"spider {spec.spider!r} cannot be created: {what}", 500)) from None
        finally:
            self._mark(LOOP, b"")
        crawl.spider._inline = self._inline(crawl)
        await take_up(crawl, self._callbacks, rid)
        crawl.used = time.monotonic()
        return crawl


def _unfit(why: str) -> Park:
    """What no other code would change."""
    park = Park(why)
    park.lack_of_code = False
    return park
