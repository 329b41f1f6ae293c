"""The release of a spider by its worker, with or without a delay."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from crawlframe import Spider
from crawlframe.node.worker.task import crawls as module
from crawlframe.node.worker.task.crawls import Crawls


class Source:
    """Makes spiders of one class."""

    def __init__(self, kind: type[Spider]) -> None:
        self._kind = kind

    async def load_task(self, task: int) -> Any:
        return SimpleNamespace(task=task, spider=self._kind.name)

    def make(self, spec: Any) -> Any:
        spider = self._kind()
        spider._task = spec.task
        return SimpleNamespace(spec=spec, spider=spider, used=0.0)


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Callable[[type[Spider]], Crawls]:
    async def take_up(*given: Any) -> None: ...

    monkeypatch.setattr(module, "take_up", take_up)

    def make(kind: type[Spider]) -> Crawls:
        source: Any = Source(kind)
        nothing: Any = None
        return Crawls(source, nothing, lambda slot, rid: None, lambda crawl: None)

    return make


@pytest.mark.parametrize(("workers", "at_once"), [(None, [1]), (1, [])])
def test_an_idle_spider_is_let_go_unless_it_keeps_state(
    make: Callable[[type[Spider]], Crawls], workers: int | None, at_once: list[int]
) -> None:
    released: list[int] = []

    class Counting(Spider):
        name = "counting"

        async def _release(self) -> None:
            released.append(self._task or 0)

    Counting.workers = workers

    async def live() -> None:
        crawls = make(Counting)
        crawl = await crawls.get(1, b"")
        crawls.let_go(idle=60.0)
        await asyncio.sleep(0)
        assert released == []  # it has just been used
        crawl.used -= 1000.0
        crawls.let_go(busy=[1], idle=60.0)
        await asyncio.sleep(0)
        assert released == []
        crawls.let_go(idle=60.0)
        await asyncio.sleep(0)
        assert released == at_once
        await crawls.leave()
        assert released == [1]

    asyncio.run(live())


def test_a_hook_that_hangs_holds_nothing_up(make: Callable[[type[Spider]], Crawls]) -> None:
    class Hanging(Spider):
        name = "hanging"

        async def _release(self) -> None:
            await asyncio.sleep(60)

    async def live() -> None:
        crawls = make(Hanging)
        first = await crawls.get(1, b"")
        crawls.let_go()
        assert await crawls.get(1, b"") is not first  # a request that comes back has a new one
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(crawls.leave(), 0.01)

    asyncio.run(live())


def test_the_one_that_waits_the_longest_makes_room_and_is_told(
    make: Callable[[type[Spider]], Crawls], monkeypatch: pytest.MonkeyPatch
) -> None:
    released: list[int] = []

    class Hooked(Spider):
        name = "hooked"

        async def _release(self) -> None:
            released.append(self._task or 0)

    monkeypatch.setattr(module, "MAX_CRAWLS", 2)

    async def live() -> None:
        crawls = make(Hooked)
        for task in (1, 2, 1, 3):
            await crawls.get(task, b"")
        await asyncio.sleep(0)
        assert released == [2]
        await crawls.leave()
        assert sorted(released) == [1, 2, 3]

    asyncio.run(live())
