"""Fitness: how well a master's children do, as the cluster is told of it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable

from crawlframe.conf import Settings
from crawlframe.frontier.records import DEATHS_WITHIN, Fitness
from crawlframe.node.child import Child

LACKING = 10.0  # seconds in which a worker may be replaced, before one is called missing
LONGEST = 200  # characters of what results wait for


class Watch:
    """Of one crew."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._deaths: deque[float] = deque(maxlen=1000)
        self._full = 0.0  # when all workers were there last; 0 before any should be
        self.staffed = False  # there is code to make workers of

    def note_death(self) -> None:
        """A worker has died that was to stay."""
        self._deaths.append(time.monotonic())

    def look(self, members: Iterable[Child]) -> Fitness:
        now = time.monotonic()
        members = [*members]
        while self._deaths and now - self._deaths[0] > DEATHS_WITHIN:
            self._deaths.popleft()
        able = sum(one.ready and one.staying for one in members if one.role == "worker")
        missing = max(0, self._settings.workers - able) if self.staffed else 0
        if not missing or not self._full:
            self._full = now
        return Fitness(
            lease=self._settings.lease,
            beat=self._settings.beat,
            missing=missing if now - self._full > LACKING else 0,
            deaths=len(self._deaths),
            waits=next((one.waits[:LONGEST] for one in members if one.waits), ""),
        )
