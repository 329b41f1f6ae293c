"""ArticleUse: which callbacks read ``response.article``. It takes 30 to 60 ms a page, too
little for a callback to be noticed as slow, too much for an event loop with hundreds of requests.
"""

from __future__ import annotations

import dis
import inspect
import logging
from functools import lru_cache
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from crawlframe.base.signatures import is_async
from crawlframe.node.worker.crawl.callbacks import Callbacks
from crawlframe.spider.spider import Spider

if TYPE_CHECKING:
    from crawlframe.text.article import Article

log = logging.getLogger(__name__)

NAME = "article"


def foresee(callbacks: Callbacks, task: int, spider: Spider, name: str) -> None:
    """Called before a callback gets its first page. A plain one whose code has ``response.article``
    runs in threads from then on. An async one awaits the article, and stays in the event loop."""
    kind: Any = type(spider)
    if _names_article(kind, name) and not callbacks.is_slow(task, name):
        callbacks.expect(task, name, computes=True)


def learn(callbacks: Callbacks, task: int, spider: Spider, name: str, article: Article) -> None:
    """Called after a callback that has used the article. If the article was extracted in the event
    loop, as by a function that the callback calls, a plain callback runs in threads from then on;
    for an async one, the log suggests the code to write."""
    if not article.held_loop:
        return
    if is_async(_method(type(spider), name)):
        _advise(task, name)
    else:
        callbacks.expect(task, name, computes=True)


@lru_cache(maxsize=1_000)  # once for each callback
def _advise(task: int, name: str) -> None:
    log.warning(
        "callback %s of task %d extracts response.article in the event loop, where all requests of "
        "this worker wait for it; write: article = await response.article",
        name,
        task,
    )


@lru_cache(maxsize=1_000)
def _names_article(kind: Any, name: str) -> bool:
    method = _method(kind, name)
    if not isinstance(method, FunctionType) or is_async(method):
        return False
    own = method.__code__.co_varnames[:1]  # self
    return any(_loads(code, own) for code in _codes(method.__code__))


def _method(kind: Any, name: str) -> Any:
    return inspect.unwrap(getattr(kind, name, _nothing))


def _nothing() -> None:
    """A stand-in for a method that the class does not have."""


def _codes(code: CodeType) -> list[CodeType]:
    """Returns a code object, and the functions and comprehensions inside it."""
    inner = (one for one in code.co_consts if isinstance(one, CodeType))
    return [code, *(found for one in inner for found in _codes(one))]


def _loads(code: CodeType, own: tuple[str, ...]) -> bool:
    """Whether code reads an attribute ``article`` of anything but the spider itself, which may have
    a callback of this name."""
    if NAME not in code.co_names:
        return False
    before: Any = None
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_ATTR", "LOAD_METHOD") and step.argval == NAME:
            last = before[-1:] if isinstance(before, tuple) else (before,)
            if last != own:
                return True
        before = step.argval
    return False
