"""Density: which links are of the text of an article, by the text around them; and the rule of the
patent on fetching URLs, to compare with it."""

from __future__ import annotations

from collections.abc import Sequence
from math import log1p
from operator import mul

from crawlframe.base.urls import host_of
from crawlframe.errors import ConfigError
from crawlframe.noise.article import RunningText, is_below
from crawlframe.noise.page import PageLinks

REASON = "density"
ARTICLE = 160  # characters of running text, two short pieces; a page with less has no article
TEXT = 20  # characters of a block outside of its links, from which on it has text

# Features of a link with their weights: the sum is the logarithm of the odds that it is content.
# ``benchmarks/noise`` of commit 03328a8d made them, from every second page of a public set.
FEATURES = (
    "constant",
    "part of the block's text that is in links",
    "between the first and the last piece of running text",
    "below the element with most of the running text",
    "to another host",
    "between, and the block has text",
    "below, and the block has text",
    "between, and in an item of a list",
    "logarithm of the pieces of running text next to the block",
    "logarithm of those next to its parent",
)
WEIGHTS = (-4.45, -5.63, 1.10, 5.57, 0.71, 0.56, -1.22, 2.19, 0.79, 1.05)
LIKELY_ODDS = -1.0  # logarithm of the odds, from which on a link is kept

# Of QuarterRule: the elements that are blocks, and the part of their text.
QUARTER_BLOCKS = frozenset(("div", "p", "td"))
QUARTER = 0.25


class Density:
    """Links outside of the text of an article are noise: navigation, lists of other articles,
    buttons and advertising.

    The article is the running text of a page without parts that are apart by their element (nav,
    aside, footer and so on) or by words in their id and classes. A link is judged by how much of
    its block is links, and by how much of that text is near. The weights were chosen on half of a
    public set of articles.

    It is for pages with articles. A page with less than ``article`` characters of running text is
    not judged: all of its links are kept. An index page with more is treated as an article, and its
    list of links as noise, so it is for links *found* on pages; for links to follow, use
    TemplateLinks. Raises ConfigError for a limit that makes no sense."""

    def __init__(self, *, article: int = ARTICLE) -> None:
        if article < 0:
            raise ConfigError(f"Density: article={article!r} must be at least 0 characters")
        self._article = article

    def reasons(self, page: PageLinks) -> Sequence[str]:
        """Returns "density" for each link that is noise."""
        article = RunningText(page)
        if article.total < self._article:
            return [""] * len(page.anchors)
        return [
            REASON if one is None or sum(map(mul, one, WEIGHTS)) < LIKELY_ODDS else ""
            for one in features(page, article)
        ]


def features(page: PageLinks, article: RunningText) -> list[tuple[float, ...] | None]:
    """Returns the features of each link, in the order of FEATURES; None for links apart from the
    article in a block without text, as most are."""
    main, order, pieces = article.main, article.order, article.pieces
    found: list[tuple[float, ...] | None] = []
    for anchor, block in zip(page.anchors, page.blocks(), strict=True):
        place = block.place
        text = block.chars >= TEXT
        if not text and article.apart(place) < 0:
            found.append(None)
            continue
        parent = place.parent
        at, position = place, order.get(place.node.mem_id, -1)
        while position < 0 and at.parent is not None:
            at = at.parent
            position = order.get(at.node.mem_id, -1)
        between = float(article.first <= position <= article.last)
        below = float(main is not None and is_below(place, main))
        found.append(
            (
                1.0,
                block.density,
                between,
                below,
                float(host_of(anchor.url) != page.host),
                between * text,
                below * text,
                between * (place.tag in ("li", "dd")),
                log1p(pieces[id(parent)]),
                log1p(pieces[id(parent.parent)] if parent is not None else 0),
            )
        )
    return found


class QuarterRule:
    """Links are noise if more than ``share`` of the text of their block is in links.

    This is the rule of 一种分布式爬虫引擎的URL抓取方法及系统 (a method and system for fetching URLs
    in a distributed crawler engine): tags that only render are ignored, the page is split at td, p
    and div, and a quarter is the limit. It is here for comparison: on articles it loses 3 of 10
    links of the text, and an index page is nothing but noise to it, which ends a crawl. Raises
    ConfigError if ``share`` is not between 0 and 1."""

    def __init__(self, share: float = QUARTER) -> None:
        if not 0 <= share <= 1:
            raise ConfigError(f"QuarterRule: share={share!r} must be between 0 and 1")
        self._share = share

    def reasons(self, page: PageLinks) -> Sequence[str]:
        """Returns "quarter" for each link that is noise."""
        return [
            "quarter" if block.density > self._share else ""
            for block in page.blocks(QUARTER_BLOCKS)
        ]
