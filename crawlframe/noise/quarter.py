"""QuarterRule: the rule of the patent on fetching URLs, as it is written there."""

from __future__ import annotations

from collections.abc import Sequence

from crawlframe.errors import ConfigError
from crawlframe.noise.page import PageLinks

REASON = "quarter"
BLOCKS = frozenset(("div", "p", "td"))
SHARE = 0.25


class QuarterRule:
    """Links are noise if more than ``share`` of the text of their block is in links.

    This is the rule of 一种分布式爬虫引擎的URL抓取方法及系统 (a method and system for fetching URLs
    in a distributed crawler engine): tags that only render are ignored, the page is split at td, p
    and div, and a quarter is the limit. It is here for comparison: on articles it loses 3 of 10
    links of the text, and an index page is nothing but noise to it, which ends a crawl. Raises
    ConfigError if ``share`` is not between 0 and 1."""

    def __init__(self, share: float = SHARE) -> None:
        if not 0 <= share <= 1:
            raise ConfigError(f"QuarterRule: share={share!r} must be between 0 and 1")
        self._share = share

    def reasons(self, page: PageLinks) -> Sequence[str]:
        """Returns "quarter" for each link that is noise."""
        return [REASON if block.density > self._share else "" for block in page.blocks(BLOCKS)]
