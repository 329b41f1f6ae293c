"""Kept pages in a worker: read for many requests at once, and not more than memory allows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any

import pytest

from crawlframe.node.worker.commit import stores
from crawlframe.node.worker.commit.stores import Stores
from crawlframe.node.worker.pages import kept_pages
from crawlframe.node.worker.pages.kept_pages import KeptPages
from crawlframe.pages.reparse import SourcePage
from crawlframe.run.ledger import LedgerAway


class Store:
    """The ledger, and the thread that asks it. ``at_once``: pages of a read at most."""

    def __init__(self, size: int = 10, at_once: int = 1000) -> None:
        self.reads: list[list[int]] = []
        self.away = 0
        self.broken = False
        self.pages, self.leave = self, None
        self._size = size
        self._at_once = at_once

    def call(self, job: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_soon(job)

    def sources(self, numbers: Collection[int]) -> tuple[dict[int, SourcePage], set[int]]:
        if self.broken:
            raise ValueError("no")
        if self.away:
            self.away -= 1
            raise LedgerAway("away")
        some = sorted(numbers)[: self._at_once]
        self.reads.append(some)
        found = {n: self._page(n) for n in some if n < 100}
        return found, {*numbers} - {*some}

    def _page(self, n: int) -> SourcePage:
        return SourcePage(n, b"r", 1, "u", 200, "", {}, "", b"", bytes(self._size))


def run(store: Store, use: Callable[[KeptPages], Any]) -> Any:
    async def main() -> Any:
        committer: Any = store
        return await asyncio.wait_for(use(KeptPages(Stores(committer, committer, committer))), 60)

    return asyncio.run(main())


def test_what_is_asked_for_together_is_read_at_once() -> None:
    store = Store()

    async def use(pages: KeptPages) -> list[Any]:
        return await asyncio.gather(*map(pages.page, (3, 1, 2, 3, 500)))

    found = run(store, use)
    assert [page and page.number for page in found] == [3, 1, 2, 3, None]
    assert store.reads == [[1, 2, 3, 500]]


def test_a_database_that_is_away_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "PAUSE", 0.0)
    store = Store()
    store.away = 2
    assert run(store, lambda pages: pages.page(7)).number == 7


def test_an_error_reaches_those_who_asked_and_nobody_else() -> None:
    store = Store()
    store.broken = True

    async def use(pages: KeptPages) -> Any:
        with pytest.raises(ValueError, match="no"):
            await pages.page(1)
        store.broken = False
        return await pages.page(1)

    assert run(store, use).number == 1


def test_no_more_is_read_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_pages, "MAX_HELD", 25)
    store = Store(size=10, at_once=2)
    held = most = 0

    async def one(pages: KeptPages, n: int) -> None:
        nonlocal held, most
        page = await pages.page(n)
        assert page is not None
        held += len(page.body)
        most = max(most, held)
        await asyncio.sleep(0.001)
        held -= len(page.body)
        pages.give(page)

    async def use(pages: KeptPages) -> None:
        await asyncio.gather(*(one(pages, n) for n in range(20)))

    run(store, use)
    assert sum(map(len, store.reads)) == 20
    assert 20 <= most <= 25 + 2 * 10


def test_who_gives_up_leaves_the_page_to_others() -> None:
    store = Store()

    async def use(pages: KeptPages) -> Any:
        first = asyncio.ensure_future(pages.page(5))
        second = asyncio.ensure_future(pages.page(5))
        await asyncio.sleep(0)
        first.cancel()
        return await second

    assert run(store, use).number == 5


def test_returned_memory_equals_the_memory_taken() -> None:
    store = Store()

    async def together(pages: KeptPages) -> int:
        for page in await asyncio.gather(pages.page(5), pages.page(5)):
            assert page is not None
            pages.give(page)
        return pages._held

    async def gone(pages: KeptPages) -> int:
        late = asyncio.ensure_future(pages.page(6))
        await asyncio.sleep(0)
        late.cancel()
        await pages.page(500)
        return pages._held

    assert [run(store, together), run(store, gone)] == [0, 0]
