"""CallLog: a client's knowledge of the data in Redis, so that it notices lost writes."""

from __future__ import annotations

import os
import time
from collections import defaultdict

FRESH_SECONDS = 300.0  # seconds; Redis forgets a client that was silent twice as long


class CallLog:
    """For one client: the era it knows for each partition, and the number of its last answered
    call.

    Every verb that writes is called with both. If Redis knows only of earlier calls, its data was
    replaced by an older copy or by a replica that was behind: however few writes were lost, the
    client whose calls they were finds out with its next call. No number is used twice: not after
    a lost answer, not in the next era, not after a long silence. So no older copy can have the
    number of a call that was answered later."""

    def __init__(self) -> None:
        self.client = os.urandom(6).hex()
        self.eras: dict[int, int] = defaultdict(int)
        self._made: dict[int, int] = defaultdict(int)
        self._answered: dict[int, tuple[int, float]] = {}

    def words(self, partition: int) -> str:
        """``<era> <client> <last answered> <this one>``, as the scripts read it; for a single
        call."""
        self._made[partition] += 1
        answered, made = self.answered(partition), self._made[partition]
        return f"{self.eras[partition]} {self.client} {answered} {made}"

    def count(self, partition: int) -> None:
        """Counts a call that was answered and changed data."""
        self._answered[partition] = self._made[partition], time.monotonic()

    def learn(self, partition: int, era: int) -> None:
        """Sets the era of a partition; earlier answers belong to another era."""
        self.eras[partition] = era
        self._answered.pop(partition, None)

    def answered(self, partition: int) -> int:
        """The number of the last call that was answered and changed something; 0 if there is none,
        or if it was so long ago that Redis may have forgotten it."""
        number, at = self._answered.get(partition, (0, 0.0))
        return number if time.monotonic() - at <= FRESH_SECONDS else 0
