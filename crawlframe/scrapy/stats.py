"""PortedStats: ``crawler.stats``, mapped onto the stats of the task."""

from __future__ import annotations

import logging
import math
from typing import Any

from scrapy.statscollectors import StatsCollector

from crawlframe.base.stats import MAX_NAME, RUNNING, Stats
from crawlframe.errors import SpiderError

log = logging.getLogger(__name__)


class PortedStats(StatsCollector):
    """``inc_value`` is added up, and of ``max_value`` the largest is kept, over all workers; they
    are committed with the page. All else, and what is counted while no request runs, is this
    worker's own. Reading returns what this worker has counted, and in ``closed`` the sums."""

    def __init__(self, crawler: Any) -> None:
        super().__init__(crawler)
        self.task: Stats | None = None
        self._refused: set[str] = set()

    def inc_value(self, key: str, count: Any = 1, start: Any = 0, spider: Any = None) -> None:
        known = key in self._stats
        super().inc_value(key, count, start)
        given = count if known or not start else count + start
        if isinstance(given, int) and not isinstance(given, bool):
            self._pass(key, "inc", given)

    def max_value(self, key: str, value: Any, spider: Any = None) -> None:
        super().max_value(key, value)
        if type(value) in (int, float) and math.isfinite(value):
            self._pass(key, "max", value)

    def note(self, key: str) -> None:
        """Counts in this worker what the task has in a column of its own."""
        super().inc_value(key)

    def _pass(self, key: str, verb: str, value: Any) -> None:
        if self.task is None or key in self._refused or RUNNING.get(None) is None:
            return
        try:
            getattr(self.task, verb)(str(key)[:MAX_NAME], value)
        except SpiderError as error:  # one name too many must not fail the callback that counts it
            self._refused.add(key)
            log.warning("stats: %r is counted in this worker only: %s", key, error)
