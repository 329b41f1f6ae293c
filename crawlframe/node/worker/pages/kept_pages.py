"""KeptPages: from where a worker gets the kept pages that are parsed again."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from functools import partial

from crawlframe.node.worker.commit.committer import Committer
from crawlframe.node.worker.task.task_source import on_commit_thread
from crawlframe.pages.reparse import PageNumbers, Reparse, SourcePage
from crawlframe.run.ledger import PageLedger

GATHER_SECONDS = 0.003  # seconds in which requests for pages join a read
POLL = 0.02  # seconds between two looks whether there is room for more
MAX_HELD = 64 << 20  # bytes of bodies that are being parsed, beyond which none is read


class KeptPages(ABC):
    """Reads kept pages."""

    @abstractmethod
    async def numbers(self, reparse: Reparse, after: int, most: int) -> PageNumbers:
        """As PageLedger.to_parse."""

    @abstractmethod
    async def page(self, number: int) -> SourcePage | None:
        """Returns the page of this number; None if it is not kept any more."""

    @abstractmethod
    def give(self, page: SourcePage) -> None:
        """Releases the page; its body is not needed any more."""


class StoredKeptPages(KeptPages):
    """Reads the database on the connection of the commit thread: pages that are asked for at about
    the same time in one query, but not more bodies than MAX_HELD, apart from the last read."""

    def __init__(self, committer: Committer, ledger: PageLedger) -> None:
        self._committer = committer
        self._ledger = ledger
        self._asked: dict[int, list[asyncio.Future[SourcePage | None]]] = {}
        self._reader: asyncio.Task[None] | None = None
        self._held = 0  # bytes, counted for each request that has them

    async def numbers(self, reparse: Reparse, after: int, most: int) -> PageNumbers:
        return await on_commit_thread(
            self._committer, lambda: self._ledger.to_parse(reparse, after, most)
        )

    async def page(self, number: int) -> SourcePage | None:
        future: asyncio.Future[SourcePage | None] = asyncio.get_running_loop().create_future()
        self._asked.setdefault(number, []).append(future)
        if self._reader is None or self._reader.done():
            self._reader = asyncio.ensure_future(self._read_all())
        try:
            return await future
        except asyncio.CancelledError:
            # The page may have come in the same moment.
            if not future.cancelled() and future.exception() is None and (page := future.result()):
                self.give(page)
            raise

    def give(self, page: SourcePage) -> None:
        self._held -= len(page.body)

    async def _read_all(self) -> None:
        while self._asked:
            await asyncio.sleep(GATHER_SECONDS)
            while self._held > MAX_HELD:
                await asyncio.sleep(POLL)
            asked = [*self._asked]
            try:
                found, left = await on_commit_thread(
                    self._committer, partial(self._ledger.sources, asked)
                )
            except Exception as error:
                for number in asked:
                    for future in self._waiting_for(number):
                        future.set_exception(error)
                return
            for number in {*asked} - left:
                page = found.get(number)
                for future in self._waiting_for(number):
                    self._held += len(page.body) if page is not None else 0
                    future.set_result(page)

    def _waiting_for(self, number: int) -> list[asyncio.Future[SourcePage | None]]:
        """The futures of callers that have asked for a page, and have not been cancelled."""
        return [future for future in self._asked.pop(number) if not future.done()]
