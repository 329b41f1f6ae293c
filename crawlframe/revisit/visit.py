"""Visit: what one visit of a page brings to its watch: the pages that it found, what its contents
are compared by, and its items."""

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
    """``policy`` is that of the page, None if it belongs to the visit of another one. ``digest``:
    of what is compared, None if the page has not been seen. ``unchanged``: the server says that it
    has not changed (304). ``keys`` are those of the items."""

    watch: int
    policy: Revisit | None = None
    digest: bytes | None = None
    unchanged: bool = False
    found: list[FoundPage] = field(default_factory=list)
    keys: list[bytes] = field(default_factory=list)

    def drop(self) -> None:
        """What the callback led to does not count."""
        self.digest, self.found, self.keys = None, [], []
