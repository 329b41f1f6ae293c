"""When a worker lets go of the spider of a task."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from crawlframe import Spider
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
