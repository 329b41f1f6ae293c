"""Pipelines: the steps through which the items of a spider pass, in order, before they are stored.

They run as often as the callback does, before the commit."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NoReturn

from crawlframe.base.signatures import misfit, parameters, required
from crawlframe.base.stats import DROPPED, MAX_NAME, MAX_REASONS, OTHER
from crawlframe.errors import CloseTask, DropItem, FileGone, PipelineFailed, SpiderError
from crawlframe.items.encode import clean_text, is_item
from crawlframe.request.request import Request
from crawlframe.response.response import Response

# Methods that other frameworks call, and their replacements.
_METHODS = {
    "open_spider": "call it open(self, spider); it is called in each worker that takes up the task",
    "close_spider": "write closed(self, summary) in the spider; it is called once per task",
    "close": "nothing would call it: a worker may die at any time; write closed(self, summary) in "
    "the spider, which is called once per task",
    "from_crawler": "pipelines are made without arguments; read the spider's in open(self, spider)",
    "from_settings": "pipelines are made without arguments; read the spider's in "
    "open(self, spider)",
}


class Pipeline:
    """A step. ``name`` is for messages."""

    def __init__(self, declared: Any) -> None:
        thing = declared() if isinstance(declared, type) else declared
        self.opens: Callable[[Any], Any] | None = getattr(thing, "open", None)
        self.process: Callable[[Any, Response | None], Any]
        self.process = getattr(thing, "process_item", thing)
        self.is_async = inspect.iscoroutinefunction(self.process)
        self.name = _name(declared)

    def checked(self, item: Any) -> Any:
        """Returns the result of ``process``. Raises SpiderError when it is not an item."""
        if is_item(item):
            return item
        hint = "return the item, or raise DropItem(reason)"
        if inspect.isawaitable(item):
            hint = "write it with async def"
            if inspect.iscoroutine(item):
                item.close()
        elif isinstance(item, Request):
            hint = "yield Requests in callbacks; a pipeline returns the item"
        raise SpiderError(
            f"pipeline {self.name} returned {type(item).__name__} {str(item)[:80]!r}; {hint}"
        )

    def fail(self, error: Exception) -> NoReturn:
        """Raises the error for an exception of ``process``."""
        if isinstance(error, DropItem | CloseTask | FileGone):
            raise error
        raise PipelineFailed(f"{self.name} raised {type(error).__name__}") from error


class Pipelines:
    """The pipelines of one spider object: ``process`` runs the synchronous ones, up to the first
    that is async; ``finish`` runs that one and all after it."""

    def __init__(self, declared: Iterable[Any] = (), item: Any = None) -> None:
        """``item``: of the spider: the class of items before the first pipeline, or None, or a
        callback of this name."""
        self._all = [Pipeline(one) for one in declared]
        if isinstance(item, type):
            from crawlframe.items.item_type import ItemType  # most spiders name none

            self._all.insert(0, Pipeline(ItemType(item)))
        first = (n for n, one in enumerate(self._all) if one.is_async)
        self._plain = next(first, len(self._all))
        self._counters: dict[str, str] = {}  # by the reasons of DropItem

    def __bool__(self) -> bool:
        return bool(self._all)

    @property
    def waits(self) -> bool:
        """Whether one of them is async."""
        return self._plain < len(self._all)

    def openings(self, spider: Any) -> list[tuple[str, Callable[[], Any]]]:
        """Names and calls of ``open(spider)``, for pipelines that have it."""
        return [
            (f"{one.name}.open", partial(one.opens, spider))
            for one in self._all
            if one.opens is not None
        ]

    def process(self, item: Any, response: Response | None) -> Any:
        """The item after the synchronous pipelines. If ``waits``, it is a copy: the callback may
        still change its own. Raises DropItem, PipelineFailed too, CloseTask and FileGone."""
        for one in self._all[: self._plain]:
            try:
                item = one.checked(one.process(item, response))
            except Exception as error:
                one.fail(error)
        # Other objects refer to a model instance, not to its copy.
        return copy.deepcopy(item) if self.waits and not hasattr(item, "_meta") else item

    async def finish(self, item: Any, response: Response | None) -> Any:
        """The item after the others. Raises as ``process`` does."""
        for one in self._all[self._plain :]:
            try:
                processed = one.process(item, response)
                item = one.checked(await processed if one.is_async else processed)
            except Exception as error:
                one.fail(error)
        return item

    def counter_of(self, reason: str) -> str:
        """The name of the counter of items dropped for this reason."""
        name = self._counters.get(reason)
        if name is None:
            if len(self._counters) >= MAX_REASONS:
                return OTHER
            text = " ".join(clean_text(reason).split()) or "no reason given"
            name = self._counters[reason] = (DROPPED + text)[:MAX_NAME].rstrip()
        return name


def misuse_of(declared: Any) -> str:
    """The mistake in the ``pipelines`` of a spider class; "" if none."""
    if not isinstance(declared, list | tuple):
        return "pipelines must be a list of functions, classes or objects"
    for one in declared:
        if problem := _misuse(one):
            return f"pipelines: {_name(one)}: {problem}"
    return ""


def _misuse(one: Any) -> str:
    process = getattr(one, "process_item", None)
    if process is None and (isinstance(one, type) or not callable(one)):
        return "it is not a function and has no method process_item(self, item, response)"
    for method, hint in _METHODS.items():
        if process is not None and callable(getattr(one, method, None)):
            return f"{method}: {hint}"
    if isinstance(one, type):
        if needed := required(one):
            return f"it is made without arguments, and needs {needed}"
        if not inspect.isfunction(inspect.getattr_static(one, "process_item")):
            return ""
    return _unfit(one, process or one)


def _unfit(one: Any, process: Any) -> str:
    """Why a function does not accept an item and a response; "" when it does."""
    own = [None] if isinstance(one, type) else []  # self
    if misfit(process, *own, None, None):
        return "it must take two arguments: process_item(item, response)"
    if parameters(process)[len(own) + 1 : len(own) + 2] == ["spider"]:
        return "process_item(item, spider) is Scrapy's; here it is process_item(item, response)"
    return ""


def _name(declared: Any) -> str:
    if isinstance(declared, str):
        return repr(declared)
    named = declared if hasattr(declared, "__qualname__") else type(declared)
    return str(named.__qualname__)
