"""Kept pages of the ledger, as workers read them."""

from __future__ import annotations

from collections.abc import Collection

from crawlframe.pages.copy import Results
from crawlframe.pages.reparse import PageNumbers, Reparse, SourcePage
from crawlframe.response.stored_page import StoredPage
from crawlframe.run.ledger import PageLedger
from crawlservice.ledger.commit_order import CommitOrder
from crawlservice.ledger.named_errors import with_named_errors
from crawlservice.models import KeptPage
from crawlservice.pages import lookup
from crawlservice.pages.rows import results_of
from crawlservice.pages.sources import Sources, source_pages


@with_named_errors
class KeptPages(PageLedger):
    """On this thread's connection."""

    def __init__(self) -> None:
        self._sources = Sources(CommitOrder(KeptPage).settled)

    def latest(self, keys: Collection[bytes]) -> dict[bytes, StoredPage]:
        return lookup.latest(keys)

    def bodies(self, numbers: Collection[int]) -> dict[int, bytes]:
        return lookup.bodies(numbers)

    def results(self, page: StoredPage) -> Results | None:
        return results_of(page)

    def to_parse(self, reparse: Reparse, after: int, most: int) -> PageNumbers:
        return self._sources.numbers(reparse, after, most)

    def sources(self, numbers: Collection[int]) -> tuple[dict[int, SourcePage], set[int]]:
        return source_pages(numbers)
