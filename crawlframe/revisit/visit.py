"""Visit: one visit's results for the watch of a page: the pages that it found, the digest of its
contents, and its items."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from crawlframe.revisit.declared import Revisit


class FoundPage(NamedTuple):
    """A page to be visited again and again. ``lastmod``: when it changed, in seconds since the
    epoch, as its sitemap says."""

    key: bytes
    url: str
    callback: str
    group: str
    place: str
    rank: int
    record: bytes
    importance: float
    lastmod: float | None = None


@dataclass(slots=True)
class Visit:
    """A visit. ``policy``: of the page, None if it belongs to the visit of another page.
    ``digest``: of the compared content, None if the page has not been seen. ``unchanged``: the
    server says that it has not changed (304). ``keys``: of the items."""

    watch: int
    policy: Revisit | None = None
    digest: bytes | None = None
    unchanged: bool = False
    found: list[FoundPage] = field(default_factory=list)
    keys: list[bytes] = field(default_factory=list)

    def drop(self) -> None:
        """Drops the callback's results."""
        self.digest, self.found, self.keys = None, [], []
