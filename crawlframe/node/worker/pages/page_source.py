"""PageSource: the store of pages, as a worker reads it."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Generic, NamedTuple, TypeGuard, TypeVar

from crawlframe.frontier import Frontier
from crawlframe.frontier.reservations import PageReservation
from crawlframe.node.worker.commit.committer import Committer
from crawlframe.node.worker.task.task_source import on_commit_thread
from crawlframe.pages.copy import Results
from crawlframe.response.stored_page import StoredPage
from crawlframe.run.ledger import Ledger

GATHER_SECONDS = 0.002  # seconds for which questions are gathered, so that many cost one query
MAX_QUESTIONS = 64  # questions at a time
MAX_BODY = 4 << 20  # bytes of a body that is taken from the store; a larger one is fetched

Q = TypeVar("Q")
A = TypeVar("A")


class Asked(NamedTuple):
    """``key``: of a page that is the same for all; ``own``: of one that is only this spider's.
    ``max_age``: seconds for which a page is fresh, if it ``fits``; 0: none is. ``lasts``:
    milliseconds for which the page is reserved, if none is fresh; 0: it is not. ``conditional``:
    the body is wanted of a page whose server can say whether it has changed."""

    key: bytes
    own: bytes
    host: str
    rid: bytes
    fits: Callable[[StoredPage], bool]
    max_age: float = 0.0
    lasts: int = 0
    conditional: bool = False

    def best(self, pages: Mapping[bytes, StoredPage]) -> StoredPage | None:
        return pages.get(self.own) or pages.get(self.key)

    def is_fresh(self, page: StoredPage | None) -> bool:
        return page is not None and 0 < self.max_age >= page.age and self.fits(page)


class KeptCopy(NamedTuple):
    """``page`` was kept last. ``fresh``: it need not be fetched. ``body``: its, if that was wanted,
    and can be read. ``waits``: for so many milliseconds another request has had the page;
    0: none has. ``reserved``: it is reserved for this one."""

    page: StoredPage | None = None
    fresh: bool = False
    body: bytes | None = None
    waits: int = 0
    reserved: bool = False


class PageSource(ABC):
    @abstractmethod
    async def find(self, asked: Asked) -> KeptCopy:
        """Returns the page for a request."""

    @abstractmethod
    async def results(self, page: StoredPage) -> Results | None:
        """As PageLedger.results."""


class StoredPages(PageSource):
    """Database and Redis, on the connections of the commit thread."""

    def __init__(self, committer: Committer, frontier: Frontier, ledger: Ledger) -> None:
        self._committer = committer
        self._frontier = frontier
        self._ledger = ledger
        self._finding = Batches(committer, self._find)

    async def find(self, asked: Asked) -> KeptCopy:
        return await self._finding.ask(asked)

    async def results(self, page: StoredPage) -> Results | None:
        return await on_commit_thread(self._committer, lambda: self._ledger.pages.results(page))

    def _find(self, asked: list[Asked]) -> list[KeptCopy]:
        pages = self._ledger.pages.latest({key for one in asked for key in (one.key, one.own)})
        missing = [one for one in asked if one.lasts and not one.is_fresh(one.best(pages))]
        held: dict[bytes, int] = {}
        if missing:
            held = self._frontier.reservations.take(
                [PageReservation(one.key, one.host, one.rid, one.lasts) for one in missing]
            )
            # One that was stored after the first look, and before the page was reserved.
            pages |= self._ledger.pages.latest({k for one in missing for k in (one.key, one.own)})
        wanted = {page.body for one in asked if _is_wanted(page := one.best(pages), one)}
        bodies = self._ledger.pages.bodies(wanted) if wanted else {}
        found, given_back = [], []
        for one in asked:
            page = one.best(pages)
            body = bodies.get(page.body) if page is not None else None
            fresh, mine = body is not None and one.is_fresh(page), held.get(one.rid) == 0
            if fresh and mine:
                given_back.append(PageReservation(one.key, one.host, one.rid))
            waits = 0 if fresh else held.get(one.rid, 0)
            found.append(KeptCopy(page, fresh, body, waits, mine and not fresh))
        if given_back:
            self._frontier.reservations.take(given_back)
        return found


def _is_wanted(page: StoredPage | None, asked: Asked) -> TypeGuard[StoredPage]:
    if page is None or page.size > MAX_BODY:
        return False
    return asked.is_fresh(page) or (asked.conditional and bool(page.etag or page.modified))


class Batches(Generic[Q, A]):
    """Asks many questions at once: questions wait while the commit thread is busy."""

    def __init__(self, committer: Committer, answer: Callable[[list[Q]], list[A]]) -> None:
        self._committer = committer
        self._answer = answer
        self._questions: list[Q] = []
        self._batch: asyncio.Task[list[A]] | None = None
        self._asking = asyncio.Lock()

    async def ask(self, question: Q) -> A:
        if self._batch is None or len(self._questions) >= MAX_QUESTIONS:
            self._questions = []
            self._batch = asyncio.get_running_loop().create_task(self._run(self._questions))
        place, batch = len(self._questions), self._batch
        self._questions.append(question)
        return (await asyncio.shield(batch))[place]

    async def _run(self, questions: list[Q]) -> list[A]:
        await asyncio.sleep(GATHER_SECONDS)
        async with self._asking:
            if self._questions is questions:
                self._batch = None
            return await on_commit_thread(self._committer, lambda: self._answer(questions))
