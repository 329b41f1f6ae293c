"""Articles: how many links that are kept are content, and how many of the content are kept."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from lxml import etree

from benchmarks.noise.labels import Page, pages
from crawlframe.noise import Density, LinkFilter, QuarterRule
from crawlframe.noise.page import BLOCKS, PageLinks
from crawlframe.page_links import link_nodes
from crawlframe.response import Response

ROUNDS = 3


class Score(NamedTuple):
    """Links by what was decided: content and noise that were kept, and that were left out."""

    kept: int
    kept_noise: int
    lost: int
    noise: int

    @property
    def precision(self) -> float:
        return self.kept / (self.kept + self.kept_noise) if self.kept else 0.0

    @property
    def recall(self) -> float:
        """The part of the content links that was kept."""
        return self.kept / (self.kept + self.lost) if self.kept else 0.0

    @property
    def f1(self) -> float:
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


class AllBlocks:
    """The rule of the source, where every block element is a block."""

    def reasons(self, page: PageLinks) -> Sequence[str]:
        return ["all" if block.density > 0.25 else "" for block in page.blocks(BLOCKS)]


FILTERS: dict[str, Callable[[], LinkFilter]] = {
    "the rule as written": QuarterRule,
    "the rule, all block elements": AllBlocks,
    "Density": Density,
}


def page_links(response: Response) -> PageLinks:
    """Returns the links of a page, as filters get them."""
    pairs = [
        (url, node)
        for node in link_nodes(response)
        if (href := node.attributes["href"]) and (url := response._join(href))
    ]
    return PageLinks(response.url, response.tree, pairs)


def halves(data: Path) -> tuple[list[Page], list[Page]]:
    """Returns the pages to tune on, and those to judge by: every second one, in order of their
    names, which are hashes."""
    found = [*pages(data)]
    return found[::2], found[1::2]


def score(one: LinkFilter, some: Sequence[Page]) -> Score:
    """Returns how a filter judges the links with text of some pages."""
    return counted(
        (not reason, content)
        for page in some
        for reason, content in zip(one.reasons(page_links(page.response)), page.labels, strict=True)
    )


def counted(links: Iterable[tuple[bool, bool | None]]) -> Score:
    """Returns the score of links: whether each was kept, and whether it is content; None is not
    counted."""
    counts = Counter(links)
    return Score(counts[True, True], counts[True, False], counts[False, True], counts[False, False])


def main_text_score(some: Sequence[Page]) -> Score:
    """Returns the score of keeping the links that are in trafilatura's main text. Needs the extra
    ``crawlframe[text]``."""
    links = []
    for page in some:
        inside = _in_main_text(page.response)
        anchors = page_links(page.response).anchors
        links += [
            (anchor.url in inside, content)
            for anchor, content in zip(anchors, page.labels, strict=True)
        ]
    return counted(links)


def _in_main_text(response: Response) -> set[str | None]:
    from trafilatura import extract

    text = extract(response.text, url=response.url, output_format="xml", include_links=True,
                   include_comments=False)  # fmt: skip
    links = etree.fromstring(text.encode()).iter("ref") if text else ()
    return {response._join(link.get("target", "")) for link in links}


def milliseconds(make: Callable[[], LinkFilter], some: Sequence[Page]) -> tuple[float, float]:
    """Returns the CPU time of a page, the mean of all: of ``links(noise=False)`` when the page was
    parsed before, and with parsing. The best of some rounds."""
    from crawlframe.noise.report import judge

    parsed, whole = [], []
    for _ in range(ROUNDS):
        fresh = [
            Response(p.response.url, 200, p.response.headers, p.response.body, p.response.request)
            for p in some
        ]
        start = time.process_time()
        for response in fresh:
            _ = response.tree
        middle = time.process_time()
        for response in fresh:
            judge(response, make())
        end = time.process_time()
        parsed.append((end - middle) / len(some) * 1000)
        whole.append((end - start) / len(some) * 1000)
    return min(parsed), min(whole)


def spread(make: Callable[[], LinkFilter], some: Sequence[Page]) -> tuple[float, float]:
    """Returns median and maximum of the CPU milliseconds of single pages that are parsed."""
    from crawlframe.noise.report import judge

    times = []
    for page in some:
        best = float("inf")
        for _ in range(ROUNDS):
            start = time.process_time()
            judge(page.response, make())
            best = min(best, time.process_time() - start)
        times.append(1000 * best)
    return statistics.median(times), max(times)
