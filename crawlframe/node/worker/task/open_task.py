"""Opening: how a worker takes up a task: its spider is made, then it and its pipelines are
opened."""

from __future__ import annotations

from functools import partial
from typing import Any

from crawlframe.code.registry import Registry
from crawlframe.errors import CloseTask, SpiderError
from crawlframe.fetch.middlewares import Middlewares, layers_of
from crawlframe.items.pipelines import Pipelines
from crawlframe.node.worker.crawl.callbacks import Call, Callbacks
from crawlframe.node.worker.crawl.task_crawl import TaskCrawl, method
from crawlframe.node.worker.fetch.inline import WithoutNetwork
from crawlframe.recipes.loading import spider_of_stored
from crawlframe.request.request import ROOT_CALLBACK, make_rid
from crawlframe.run.ledger import TaskSpec
from crawlframe.spider.spider import Spider, build
from crawlframe.spider.task_info import TaskInfo

OPENED = "opened"


class CrawlMaker:
    """Makes the spiders of one worker. ``deadline``: seconds that a middleware may run."""

    def __init__(self, registry: Registry, deadline: float) -> None:
        self._registry = registry
        self._deadline = deadline
        self._recipes: dict[str, tuple[int, type[Spider]]] = {}  # version and spider, by name
        self._middlewares: dict[type[Spider], Middlewares | None] = {}

    def make(self, spec: TaskSpec) -> TaskCrawl:
        """Returns the task with a new spider object. Raises UnknownSpider, ArgumentError,
        SpiderError, and errors of the author's __init__ and properties."""
        spider, start_arguments = build(self._kind_of(spec), spec.arguments, spec.settings)
        if layers := layers_of(spider):
            around = (*type(spider).middlewares, *layers)
            middlewares: Middlewares | None = Middlewares(around, self._deadline)
        else:
            # One set for all tasks of a spider in this worker.
            kind = type(spider)
            if kind not in self._middlewares:
                own = Middlewares(kind.middlewares, self._deadline)
                self._middlewares[kind] = own if own.layers else None
            middlewares = self._middlewares[kind]
        pipelines = Pipelines(spider.pipelines, type(spider).item)
        return TaskCrawl.of(spec, spider, start_arguments, middlewares, pipelines)

    def _kind_of(self, spec: TaskSpec) -> type[Spider]:
        """Returns the spider of the code, or else of the recipe."""
        if spec.recipe is None or spec.spider in self._registry.spiders:
            return self._registry.get(spec.spider)
        number, kind = self._recipes.get(spec.spider, (0, Spider))
        if number != spec.recipe.number:
            number, kind = spec.recipe.number, spider_of_stored(spec.recipe.text)
            self._recipes[spec.spider] = number, kind
        return kind


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
    spec = crawl.spec
    info = TaskInfo(spec.task, spec.spider, spec.arguments, spec.priority)
    if crawl.spider._own_process:
        callbacks.single_threaded.add(task)
    if (
        crawl.spider.workers == 1
        and not spec.watch
        and rid != make_rid(task, ROOT_CALLBACK.encode())
    ):
        crawl.spider.log.warning(
            "this process takes over the task: what its code kept in memory begins anew"
        )
    calls = crawl.pipelines.openings(crawl.spider)
    if hasattr(crawl.spider, OPENED):
        calls.insert(0, (OPENED, partial(method(crawl, OPENED), info)))
    for name, function in calls:
        try:
            await callbacks.run(Call(task, name, rid, function, partial(_refuse, name)))
        except CloseTask:
            raise
        except Exception as error:
            retries = 0 if isinstance(error, WithoutNetwork) else crawl.settings.retries
            raise NotOpened(error, retries) from error


def _refuse(name: str, thing: Any) -> None:
    if thing is not None:
        raise SpiderError(f"{name} yielded {thing!r:.80}; only callbacks yield items and Requests")
