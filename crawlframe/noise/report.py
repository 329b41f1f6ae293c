"""LinkReport: the links of a page, kept ones and noise, with reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from crawlframe.markup.links import address_in, link_nodes
from crawlframe.noise.page import PageLinks


class NoiseFilter(Protocol):
    """A filter that decides which links of a page are noise."""

    def reasons(self, page: PageLinks) -> Sequence[str]:
        """Returns, for each of ``page.anchors``, why it is noise; "" if it is not."""
        ...


class LinkReport(NamedTuple):
    """Decisions about the links of a page. ``kept``: URLs in the order of the page, each once;
    ``noise``: the other URLs, in the same order, with the reason of each. A URL is noise only if
    all links of the page that lead to it are; the reason is the first link's."""

    kept: list[str]
    noise: dict[str, str]

    @property
    def counts(self) -> Counter[str]:
        """Number of URLs by reason; kept URLs are under "kept"."""
        counts = Counter(self.noise.values())
        counts["kept"] = len(self.kept)
        return counts


def judge(response: Any, *filters: NoiseFilter) -> LinkReport:
    """Returns the report of an HTML page; an empty one for others. A link is noise if one of the
    filters says so, and each of them sees all links. Raises TooDeep or TooComplex for a page whose
    parsing would take too long."""
    if response.kind != "html":
        return LinkReport([], {})
    nodes = link_nodes(response)
    # A link's address is joined once, however often the page has it.
    hrefs = [address_in(node.attrs) or "" for node in nodes]
    unique = [*dict.fromkeys(hrefs)]
    urls = dict(zip(unique, response._join_all(unique), strict=True))
    pairs = [
        (url, node) for href, node in zip(hrefs, nodes, strict=True) if (url := urls.get(href))
    ]
    page = PageLinks(response.url, response.tree, pairs)
    reasons = [""] * len(pairs)
    for one in filters:
        reasons = [old or new for old, new in zip(reasons, one.reasons(page), strict=True)]
    verdicts: dict[str, str] = {}
    for (url, _), reason in zip(pairs, reasons, strict=True):
        if url not in verdicts or not reason:
            verdicts[url] = reason
    return LinkReport(
        [url for url, reason in verdicts.items() if not reason],
        {url: reason for url, reason in verdicts.items() if reason},
    )
