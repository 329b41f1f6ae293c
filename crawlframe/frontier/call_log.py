"""CallLog: what one client knows of the data in Redis, so that it notices when some was lost."""

from __future__ import annotations

import os
import time
from collections import defaultdict

FRESH = 300.0  # seconds; Redis forgets a client that was silent for twice as long


class CallLog:
    """Of one client: for each partition the era it knows, and the number of its last call that was
    answered.

    Every verb that writes is told so. When Redis knows only of earlier calls, an older copy has
    taken the place of the data, or a replica that was behind: however few the lost writes are,
    whoever was told that they are done finds out with its next call. No number comes twice: not
    after a lost answer, not in the next era, not after a long silence. So no copy of before has
    that of a call that was answered later."""

    def __init__(self) -> None:
        self.client = os.urandom(6).hex()
        self.eras: dict[int, int] = defaultdict(int)
        self._made: dict[int, int] = defaultdict(int)
        self._answered: dict[int, tuple[int, float]] = {}

    def words(self, partition: int) -> str:
        """``<era> <client> <last answered> <this one>``, as the scripts read it: for one call."""
        self._made[partition] += 1
        answered, made = self.answered(partition), self._made[partition]
        return f"{self.eras[partition]} {self.client} {answered} {made}"

    def count(self, partition: int) -> None:
        """The last call was answered, and changed something."""
        self._answered[partition] = self._made[partition], time.monotonic()

    def learn(self, partition: int, era: int) -> None:
        """The era is known now; what was answered belongs to another one."""
        self.eras[partition] = era
        self._answered.pop(partition, None)

    def answered(self, partition: int) -> int:
        """The number of the last call that was answered and changed something; 0: of none, or so
        long ago that Redis may have forgotten it."""
        number, at = self._answered.get(partition, (0, 0.0))
        return number if time.monotonic() - at <= FRESH else 0
