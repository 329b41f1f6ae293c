"""LinkLimits: which new links of a task are not followed. Most URLs pass with a few comparisons of
lengths."""

from __future__ import annotations

import sys

from crawlframe.base.bounded_dict import BoundedDict
from crawlframe.base.limits import (
    HOST_BYTE_LIMIT,
    LINKS_PER_PAGE,
    QUERY_PERMUTATIONS,
    REPEATED_SEGMENTS,
    TRAP,
    URL_LENGTH,
    ByteBudget,
)
from crawlframe.base.urls import host_of
from crawlframe.node.worker.links.traps import TrapWatch
from crawlframe.run.link_filters import Keep, LinkPage, NewRequest
from crawlframe.spider.settings import SpiderSettings

SHORT_PATH = 8  # segments; a path without more is not examined for repeated ones: loops grow
PATHS = 10_000  # with a query, that a worker remembers of a task


class LinkLimits:
    """The limits of one task in this worker. ``limits``: whether there are any."""

    def __init__(
        self, settings: SpiderSettings, budget: ByteBudget | None, traps: TrapWatch | None
    ) -> None:
        self._most = settings.links_per_page or sys.maxsize
        self._length = settings.url_length or sys.maxsize
        self._repeats = settings.repeated_segments
        # "https://host/a/a" has two slashes more than segments.
        self.slashes = SHORT_PATH + 2 if self._repeats else sys.maxsize
        self._permutations = settings.query_permutations
        self._names: BoundedDict[str, set[tuple[str, ...]]] = BoundedDict(PATHS)  # by path
        self._budget = budget if budget and budget.host_limit else None
        self._traps = traps if settings.traps == "stop" else None
        any_url = settings.links_per_page or self._permutations or self._budget or self._traps
        self.length = -1 if any_url else self._length
        self.limits = bool(any_url or settings.url_length or self._repeats)

    def of_page(self, page: LinkPage) -> Keep:
        """As LinkFilter has it."""
        length, slashes = self.length, self.slashes

        def keep(link: NewRequest) -> str | None:
            url = link.request.url
            if len(url) <= length and url.count("/") <= slashes:
                return None
            return self.refuses(url, page.taken) or None

        return keep

    def refuses(self, url: str, taken: int) -> str:
        """Returns the reason for which a new URL is not followed, "" if it is. ``taken``: requests
        that were taken from the same page."""
        if len(url) > self._length:
            return URL_LENGTH
        if url.count("/") > self.slashes and self._repeats_a_segment(url):
            return REPEATED_SEGMENTS
        if self._traps is not None and self._traps.stops(url):
            return TRAP
        if self._budget is not None and self._budget.is_spent(host_of(url)):
            return HOST_BYTE_LIMIT
        if taken >= self._most:
            return LINKS_PER_PAGE
        if self._permutations and "?" in url and self._is_one_more(url):
            return QUERY_PERMUTATIONS
        return ""

    def _repeats_a_segment(self, url: str) -> bool:
        segments = url.partition("?")[0].split("/")[3:]
        different = set(segments)
        if len(segments) - len(different) < self._repeats:
            return False
        different.discard("")
        return any(segments.count(segment) > self._repeats for segment in different)

    def _is_one_more(self, url: str) -> bool:
        """Whether the names of its query are a further set of them, and the path has had enough.
        Their order does not matter: it makes no other request."""
        path, _, query = url.partition("?")
        names = tuple(sorted(part.partition("=")[0] for part in query.split("&")))
        if (known := self._names.use(path)) is None:
            known = self._names[path] = set()
        if names in known:
            return False
        if len(known) >= self._permutations:
            return True
        known.add(names)
        return False
