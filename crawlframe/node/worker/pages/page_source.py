"""PageSource: the store of pages, as a worker reads it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeGuard

from crawlframe.frontier.reservations import PageReservation
from crawlframe.node.worker.commit.stores import Batches, Stores
from crawlframe.pages.copy import Results
from crawlframe.response.stored_page import StoredPage

MAX_BODY = 4 << 20  # bytes of a body that is taken from the store; a larger one is fetched


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


class PageSource:
    """The pages of database and Redis."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._finding = Batches(stores, self._find)

    async def find(self, asked: Asked) -> KeptCopy:
        """Returns the page for a request."""
        return await self._finding.ask(asked)

    async def results(self, page: StoredPage) -> Results | None:
        """As PageLedger.results."""
        return await self._stores.ask(lambda: self._stores.ledger.pages.results(page))

    def _find(self, asked: list[Asked]) -> list[KeptCopy]:
        ledger, reservations = self._stores.ledger.pages, self._stores.frontier.reservations
        pages = ledger.latest({key for one in asked for key in (one.key, one.own)})
        missing = [one for one in asked if one.lasts and not one.is_fresh(one.best(pages))]
        held: dict[bytes, int] = {}
        if missing:
            held = reservations.take(
                [PageReservation(one.key, one.host, one.rid, one.lasts) for one in missing]
            )
            # One that was stored after the first look, and before the page was reserved.
            pages |= ledger.latest({k for one in missing for k in (one.key, one.own)})
        wanted = {page.body for one in asked if _is_wanted(page := one.best(pages), one)}
        bodies = ledger.bodies(wanted) if wanted else {}
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
            reservations.take(given_back)
        return found


def _is_wanted(page: StoredPage | None, asked: Asked) -> TypeGuard[StoredPage]:
    if page is None or page.size > MAX_BODY:
        return False
    return asked.is_fresh(page) or (asked.conditional and bool(page.etag or page.modified))
