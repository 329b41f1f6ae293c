"""When a worker lets go of the spider of a task."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from crawlframe import Spider
from crawlframe.node.worker import crawls as module
from crawlframe.node.worker.crawls import Crawls
from crawlframe.node.worker.opening import let_go


@pytest.mark.parametrize(("workers", "left"), [(None, []), (1, [1])])
def test_an_idle_spider_is_let_go_unless_it_keeps_state(
    workers: int | None, left: list[int]
) -> None:
    class Counting(Spider):
        name = "counting"

        async def _release(self) -> None:
            released.append(True)

    released: list[bool] = []
    Counting.workers = workers
    made = Counting()

    async def live() -> None:
        crawl: Any = SimpleNamespace(spider=made, used=-1000.0, spec=None)
        future = asyncio.get_running_loop().create_future()
        future.set_result(crawl)
        crawls = {1: future}
        await let_go(crawls, idle=60.0)
        assert [*crawls] == left
        await let_go(crawls)  # the worker ends
        assert (crawls, released) == ({}, [True])

    asyncio.run(live())


def test_the_one_that_waits_the_longest_makes_room_and_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    released: list[int] = []

    class Hooked(Spider):
        name = "hooked"

        async def _release(self) -> None:
            released.append(self._task or 0)

    class Source:
        async def load_task(self, task: int) -> Any:
            return SimpleNamespace(task=task, spider="hooked")

        def make(self, spec: Any) -> Any:
            spider = Hooked()
            spider._task = spec.task
            return SimpleNamespace(spec=spec, spider=spider, used=0.0)

    async def take_up(*given: Any) -> None: ...

    monkeypatch.setattr(module, "take_up", take_up)
    monkeypatch.setattr(module, "MAX_CRAWLS", 2)
    source: Any = Source()

    async def live() -> None:
        nothing: Any = None
        made = Crawls(source, nothing, lambda slot, rid: None, lambda crawl: None)
        for task in (1, 2, 1, 3):
            await made.get(task, b"")
        await asyncio.sleep(0)
        assert released == [2]
        await made.release()
        assert sorted(released) == [1, 2, 3]

    asyncio.run(live())
