"""Pulse: what one client knows of the data in Redis, so that it notices when some was lost."""

from __future__ import annotations

import os
import time
from collections import defaultdict

FRESH = 300.0  # seconds; Redis forgets a client that was silent for twice as long


class Pulse:
    """Of one client: for each partition the era it knows, and how many of its calls were answered.

    Every verb that writes is told so. When Redis knows of fewer calls, an older copy has taken the
    place of the data, or a replica that was behind: however few the lost writes are, whoever was
    told that they are done finds out with its next call."""

    def __init__(self) -> None:
        self.client = os.urandom(6).hex()
        self.eras: dict[int, int] = defaultdict(int)
        self._calls: dict[int, tuple[int, float]] = {}

    def words(self, partition: int) -> str:
        """``<era> <client> <calls>``, as the scripts read it."""
        return f"{self.eras[partition]} {self.client} {self._answered(partition)}"

    def count(self, partition: int) -> None:
        """A call was answered that changed something."""
        self._calls[partition] = self._answered(partition) + 1, time.monotonic()

    def learn(self, partition: int, era: int) -> None:
        """The era is known now; what was counted belongs to another one."""
        self.eras[partition] = era
        self._calls.pop(partition, None)

    def _answered(self, partition: int) -> int:
        calls, at = self._calls.get(partition, (0, 0.0))
        return calls if time.monotonic() - at <= FRESH else 0
