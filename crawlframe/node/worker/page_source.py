"""PageSource: from where a worker gets the kept pages that are parsed again."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Collection

from crawlframe.ledger import Ledger
from crawlframe.node.worker.commit import Committer
from crawlframe.node.worker.task_source import on_commit_thread
from crawlframe.pages.reparse import Reparse, SourcePage

GATHER = 0.003  # seconds in which requests for pages join a read


class PageSource(ABC):
    """Reads kept pages."""

    @abstractmethod
    async def numbers(self, reparse: Reparse, after: int, most: int) -> tuple[list[int], bool]:
        """As Ledger.pages_to_parse."""

    @abstractmethod
    async def page(self, number: int) -> SourcePage | None:
        """Returns the page of this number; None if it is not kept any more."""


class StoredPages(PageSource):
    """Reads the database on the connection of the commit thread: what is asked for at about the
    same time, at once."""

    def __init__(self, committer: Committer, ledger: Ledger) -> None:
        self._committer = committer
        self._ledger = ledger
        self._asked: dict[int, asyncio.Future[SourcePage | None]] = {}
        self._reads: set[asyncio.Task[None]] = set()

    async def numbers(self, reparse: Reparse, after: int, most: int) -> tuple[list[int], bool]:
        return await on_commit_thread(
            self._committer, lambda: self._ledger.pages_to_parse(reparse, after, most)
        )

    async def page(self, number: int) -> SourcePage | None:
        if not self._asked:
            read = asyncio.ensure_future(self._read_soon())
            self._reads.add(read)
            read.add_done_callback(self._reads.discard)
        future = self._asked.get(number)
        if future is None:
            future = self._asked[number] = asyncio.get_running_loop().create_future()
        return await asyncio.shield(future)

    async def _read_soon(self) -> None:
        await asyncio.sleep(GATHER)
        asked, self._asked = self._asked, {}
        try:
            found = await on_commit_thread(self._committer, lambda: self._read(asked))
        except BaseException as error:
            for future in asked.values():
                if isinstance(error, asyncio.CancelledError):
                    future.cancel()
                elif not future.done():
                    future.set_exception(error)
            if isinstance(error, asyncio.CancelledError):
                raise
            return
        for number, future in asked.items():
            if not future.done():
                future.set_result(found.get(number))

    def _read(self, numbers: Collection[int]) -> dict[int, SourcePage]:
        return self._ledger.source_pages(numbers)
