"""TemplateLinks: links that are on most pages of a host, in the same place: its navigation and its
footer. They are followed once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from crawlframe.base.bounded_dict import BoundedDict
from crawlframe.errors import ConfigError
from crawlframe.noise.page import PageLinks, TextPlace
from crawlframe.noise.report import LinkReport, judge

REASON = "template"
SHARE = 0.8  # of the pages of a host
PAGES = 10  # of a host, before anything is judged
HOSTS = 256
LINKS = 2_048  # of a host that are counted
MEMORY = 1_000  # pages of a host; then all counts are halved, so that a new template is learned
MAX_ELEMENTS = 3  # elements above a link that say where it is


class _Host:
    """The counts of a host. ``links``: on how many pages each link was; ``new``: counts that
    ``take_new`` has not taken; ``returned``: links returned since they are known to belong to the
    template."""

    __slots__ = ("links", "new", "new_pages", "pages", "returned")

    def __init__(self) -> None:
        self.pages = self.new_pages = 0
        self.links: dict[int, int] = {}
        self.new: dict[int, int] = {}
        self.returned: set[int] = set()


class TemplateLinks:
    """A filter that remembers the links of each host, for the pages of one task.

    A link that is in the same place on at least ``share`` of the pages of its host belongs to the
    host's template. It is returned until that is known, which takes ``pages`` pages, and once
    afterwards; then it is noise. Only links that were returned before are left out, so a crawl that
    follows all returned links reaches the same pages as without the filter. Use an object for each
    task: with another task's object, links that were not followed would count as followed.

    Memory is bounded: the counts of ``links`` links of a host (about 0.1 KB each, the most frequent
    are kept), and of ``hosts`` hosts (the last used are kept). A forgotten host is counted anew,
    and its links are returned meanwhile. An object is for one thread.

    In a cluster, each worker counts its own pages. ``take_new`` returns its new counts, and ``add``
    takes the counts of others. Raises ConfigError for limits that make no sense."""

    def __init__(
        self,
        *,
        share: float = SHARE,
        pages: int = PAGES,
        hosts: int = HOSTS,
        links: int = LINKS,
    ) -> None:
        if not 0.5 <= share <= 1:
            raise ConfigError(f"TemplateLinks: share={share!r} must be between 0.5 and 1")
        if min(pages, hosts) < 1:
            raise ConfigError(f"TemplateLinks: pages={pages!r} and hosts={hosts!r}: at least 1")
        if links < 64:
            raise ConfigError(f"TemplateLinks: links={links!r} must be at least 64")
        self._share, self._pages, self._most = share, pages, links
        self._hosts: BoundedDict[str, _Host] = BoundedDict(hosts)

    def judge(self, response: Any) -> LinkReport:
        """Returns the report of a page, and counts its links. Raises as ``response.links`` does."""
        return judge(response, self)

    def reasons(self, page: PageLinks) -> Sequence[str]:
        """Returns "template" for each link that is noise, and counts the page."""
        keys = keys_of(page)
        return [REASON if noise else "" for noise in self.count(page.host, keys)]

    def count(self, host: str, keys: Sequence[int]) -> list[bool]:
        """Counts a page with links of these keys, and returns which are noise."""
        template = self.template(host, keys)
        known = self._host(host)
        noise = template & known.returned
        known.returned |= template
        return [key in noise for key in keys]

    def template(self, host: str, keys: Sequence[int]) -> set[int]:
        """Counts a page with links of these keys, and returns the keys that belong to the template
        of its host, whether they were returned before or not."""
        known = self._host(host)
        self._add(known, 1, dict.fromkeys(keys, 1))
        known.new_pages += 1
        for key in dict.fromkeys(keys):
            known.new[key] = known.new.get(key, 0) + 1
        if len(known.new) > self._most:
            known.new = _most_counted(known.new, self._most // 2)
        if known.pages < self._pages:
            return set()
        least = self._share * known.pages
        return {key for key in keys if known.links.get(key, 0) >= least}

    def take_new(self) -> dict[str, tuple[int, dict[int, int]]]:
        """Returns the counts since the last call, by host: the number of pages, and on how many of
        them each link was, by a number of 64 bits that is the same in every process."""
        new = {}
        for host, known in self._hosts.items():
            if known.new_pages:
                new[host] = (known.new_pages, known.new)
                known.new_pages, known.new = 0, {}
        return new

    def add(self, host: str, pages: int, links: Mapping[int, int]) -> None:
        """Adds the counts of others: pages of a host, and on how many of them each link was. Links
        that only others have returned are returned here once more."""
        if pages < 0:
            raise ConfigError(f"TemplateLinks: {pages} pages of {host} cannot be added")
        self._add(self._host(host), pages, links)

    def counts(self, host: str) -> tuple[int, dict[int, int]]:
        """Returns the pages of a host and, for the links that are remembered, on how many of them
        each was; both are halved now and then."""
        known = self._hosts.get(host)
        return (known.pages, dict(known.links)) if known is not None else (0, {})

    def _host(self, host: str) -> _Host:
        known = self._hosts.use(host)
        if known is None:
            known = self._hosts[host] = _Host()
        return known

    def _add(self, known: _Host, pages: int, links: Mapping[int, int]) -> None:
        counts = known.links
        for key, count in links.items():
            counts[key] = counts.get(key, 0) + count
        known.pages += pages
        if known.pages > MEMORY:
            known.pages //= 2
            known.links = counts = {key: count // 2 for key, count in counts.items() if count > 1}
        if len(counts) > self._most:
            # A link of the template has more than share of the pages, so it stays as long as a page
            # has fewer links than half of this.
            known.links = _most_counted(counts, self._most // 2)
            known.returned &= known.links.keys()


def _most_counted(counts: dict[int, int], most: int) -> dict[int, int]:
    """The entries with the highest counts; of equal ones, the newest."""
    newest = reversed(counts.items())
    return dict(sorted(newest, key=lambda entry: entry[1], reverse=True)[:most][::-1])


def keys_of(page: PageLinks) -> list[int]:
    """The keys that count the links of a page: URL and place."""
    return [_key(anchor.url, anchor.place) for anchor in page.anchors]


def _key(url: str, place: TextPlace) -> int:
    """A link and its place: the tags above it, without parts that differ from page to page."""
    tags: list[str] = []
    at: TextPlace | None = place
    while at is not None and len(tags) < MAX_ELEMENTS:
        tags.append(at.tag)
        at = at.parent
    text = f"{'/'.join(tags)} {url}"
    return int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=8).digest(), "big")


def lcs() -> Callable[..., int]:
    """Returns rapidfuzz's length of the longest common subsequence of two sequences. Raises
    ConfigError if the extra is not installed."""
    try:
        from rapidfuzz.distance.LCSseq import similarity as length
    except ImportError:
        raise ConfigError(
            "families of URLs need the extra broad: pip install 'crawlframe[broad]'"
        ) from None
    return length


def similarity(one: Sequence[Any], other: Sequence[Any]) -> float:
    """Returns the mean of LCS/|one| and LCS/|other|, 0.0 to 1.0, where LCS is the length of the
    longest common subsequence: the measure of 一种分布式爬虫引擎的URL抓取方法及系统 (a method and
    system for fetching URLs in a distributed crawler engine). 1.0 for two empty sequences."""
    if not one or not other:
        return float(not one and not other)
    common = lcs()(one, other)
    return (common / len(one) + common / len(other)) / 2
