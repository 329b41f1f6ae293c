"""KeptPages: the kept pages that a worker parses again."""

from __future__ import annotations

import asyncio
from functools import partial

from crawlframe.node.worker.commit.stores import Stores
from crawlframe.pages.reparse import PageNumbers, Reparse, SourcePage

GATHER_SECONDS = 0.003  # seconds in which requests for pages join a read
POLL = 0.02  # seconds between two looks whether there is room for more
MAX_HELD = 64 << 20  # bytes of bodies that are being parsed, beyond which none is read


class KeptPages:
    """Reads pages that are asked for at about the same time in one query, but not more bodies than
    MAX_HELD, apart from the last read."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._asked: dict[int, list[asyncio.Future[SourcePage | None]]] = {}
        self._reader: asyncio.Task[None] | None = None
        self._held = 0  # bytes, counted for each request that has them

    async def numbers(self, reparse: Reparse, after: int, most: int) -> PageNumbers:
        """As PageLedger.to_parse."""
        pages = self._stores.ledger.pages
        return await self._stores.ask(lambda: pages.to_parse(reparse, after, most))

    async def page(self, number: int) -> SourcePage | None:
        """Returns the page of this number; None if it is not kept any more."""
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
        """Releases the page; its body is not needed any more."""
        self._held -= len(page.body)

    async def _read_all(self) -> None:
        while self._asked:
            await asyncio.sleep(GATHER_SECONDS)
            while self._held > MAX_HELD:
                await asyncio.sleep(POLL)
            asked = [*self._asked]
            try:
                sources = partial(self._stores.ledger.pages.sources, asked)
                found, left = await self._stores.ask(sources)
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
