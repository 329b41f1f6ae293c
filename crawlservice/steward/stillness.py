"""Stillness: tasks that have requests to claim, and make no progress."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from crawlframe.frontier import Counts, Frontier
from crawlservice.models import Task

log = logging.getLogger(__name__)

STILL = 30.0  # seconds without progress after which a task with requests to claim is examined


class Stillness:
    """Requests that wait while none is in progress may wait for their hosts' next times; or Redis
    is damaged, so that no claim can see them."""

    def __init__(self, frontier: Frontier) -> None:
        self._frontier = frontier
        self._still: dict[int, tuple[Counts, float]] = {}  # tasks without progress, and since when

    def examine(self, found: Mapping[int, Counts | None]) -> None:
        """Doubts the data in Redis if a task has long been still and an audit finds something.
        Raises redis.RedisError and FrontierError."""
        now, before = time.monotonic(), self._still
        self._still = {}
        for pk, counts in found.items():
            if counts and counts.state == Task.State.RUNNING and counts.waits:
                last, since = before.get(pk, (counts, now))
                self._still[pk] = counts, since if last == counts else now
        if any(now - since > STILL for _, since in self._still.values()):
            self._still.clear()
            if problems := self._frontier.audit():
                log.error("Redis is inconsistent: %s", problems[0])
                self._frontier.eras.doubt()
