"""Opening: runs ``opened`` and ``open`` of a spider and its pipelines when a worker starts a
task."""

from __future__ import annotations

from functools import partial
from typing import Any

from crawlframe.errors import CloseTask, SpiderError
from crawlframe.node.worker.callbacks import Call, Callbacks
from crawlframe.node.worker.crawl import TaskCrawl, method
from crawlframe.task_life import TaskInfo

OPENED = "opened"


class NotOpened(Exception):
    """``cause`` was raised by ``opened``. ``retries``: further attempts that a request has."""

    def __init__(self, cause: BaseException, retries: int) -> None:
        super().__init__(f"{type(cause).__name__}: {cause}")
        self.cause = cause
        self.retries = retries


async def take_up(crawl: TaskCrawl, callbacks: Callbacks, rid: bytes) -> None:
    """Calls ``opened`` of the spider, then ``open`` of its pipelines. ``rid`` is blamed if that
    kills the worker. Raises NotOpened and CloseTask."""
    task = crawl.spider._task = crawl.spec.task
    info = TaskInfo(*crawl.spec)
    calls = crawl.pipelines.openings(crawl.spider)
    if hasattr(crawl.spider, OPENED):
        calls.insert(0, (OPENED, partial(method(crawl, OPENED), info)))
    for name, function in calls:
        try:
            await callbacks.run(Call(task, name, rid, function, partial(_refuse, name)))
        except CloseTask:
            raise
        except Exception as error:
            raise NotOpened(error, crawl.settings.retries) from error


def _refuse(name: str, thing: Any) -> None:
    if thing is not None:
        raise SpiderError(f"{name} yielded {thing!r:.80}; only callbacks yield items and Requests")
