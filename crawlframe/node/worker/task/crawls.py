"""Crawls: the tasks that a worker has taken up, each with its spider."""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable, Container, Iterator
from typing import Any

from crawlframe.base.stats import OPENING, RUNNING
from crawlframe.errors import ArgumentError, ConfigError, UnknownSpider
from crawlframe.node.running_marks import LOOP
from crawlframe.node.worker.crawl.callbacks import Callbacks
from crawlframe.node.worker.crawl.task_crawl import Park, TaskCrawl
from crawlframe.node.worker.fetch.inline import Offline
from crawlframe.node.worker.task.open_task import take_up
from crawlframe.node.worker.task.task_source import TaskSource
from crawlframe.node.worker.verdict.failures import trim
from crawlframe.spider.spider import Spider

MAX_CRAWLS = 10_000  # of some 10 KB each, without what spiders keep

Key = tuple[int, bool]  # task, and whether it is for kept pages

log = logging.getLogger(__name__)


class UnknownTask(Park):
    """Raised when a task is not in the database. No other code would change that."""

    lack_of_code = False


class Crawls:
    """The opened tasks of one worker, used from one event loop. ``mark``: as of Callbacks.
    ``inline`` makes the client for fetches inside a spider's callbacks."""

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
        # In the order in which they were asked for last.
        self._crawls: OrderedDict[Key, asyncio.Future[TaskCrawl]] = OrderedDict()
        self._leaving: set[asyncio.Future[None]] = set()

    def forget(self, task: int) -> None:
        """Lets the next request of the task open it again."""
        for offline in (False, True):
            self._crawls.pop((task, offline), None)

    async def get(self, task: int, rid: bytes, *, offline: bool = False) -> TaskCrawl:
        """Returns the task, opened for request ``rid`` if that is the first. ``offline``: for a
        kept page, so that ``opened`` fetches nothing either. Raises Park, and errors of
        ``take_up``."""
        key = task, offline
        future = self._crawls.get(key)
        if future is None:
            future = self._crawls[key] = asyncio.ensure_future(self._open(task, rid, offline))
            if len(self._crawls) > MAX_CRAWLS and (opened := next(self._opened(), None)):
                self._leave(opened[0])  # it has waited longest for a request
        try:
            crawl = future.result() if future.done() else await asyncio.shield(future)
            crawl.used = time.monotonic()
            if key in self._crawls:  # not if it was forgotten meanwhile
                self._crawls.move_to_end(key)
            return crawl
        except BaseException:
            if future.done():
                self._crawls.pop(key, None)  # the next request tries again
            raise

    def let_go(self, busy: Container[int] = (), idle: float = 0.0) -> None:
        """Closes the tasks whose spiders have a hook for it, and starts that hook: all but ``busy``
        tasks and tasks that did something within ``idle`` seconds. With ``idle``, spiders that run
        in one worker stay, because of the state that they keep."""
        for key, crawl in [*self._opened()]:
            hooked = type(crawl.spider)._release is not Spider._release
            stays = idle > 0 and crawl.spider.workers == 1
            rests = time.monotonic() - crawl.used >= idle
            if hooked and not stays and rests and key[0] not in busy:
                self._leave(key)

    async def leave(self) -> None:
        """Closes all tasks, and waits until every hook has ended."""
        self.let_go()
        await asyncio.gather(*self._leaving)

    def _opened(self) -> Iterator[tuple[Key, TaskCrawl]]:
        for key, future in self._crawls.items():
            if future.done() and not future.cancelled() and future.exception() is None:
                yield key, future.result()

    def _leave(self, key: Key) -> None:
        leaving = asyncio.ensure_future(_release(self._crawls.pop(key).result()))
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)

    async def _open(self, task: int, rid: bytes, offline: bool) -> TaskCrawl:
        try:
            spec = await self._source.load_task(task)
        except ConfigError as error:
            raise _unfit(trim(str(error), 500)) from None
        if spec is None:
            raise UnknownTask(f"task {task} is not in the database")
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
        crawl.spider._inline = Offline() if offline else self._inline(crawl)
        await take_up(crawl, self._callbacks, rid)
        crawl.used = time.monotonic()
        return crawl


async def _release(crawl: TaskCrawl) -> None:
    try:
        await crawl.spider._release()
    except Exception:
        log.exception("spider %s of task %d did not close", crawl.spec.spider, crawl.spec.task)


def _unfit(why: str) -> Park:
    """Returns a Park that no other code would change."""
    park = Park(why)
    park.lack_of_code = False
    return park
