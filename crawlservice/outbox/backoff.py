"""Backoff: how long a failed attempt waits for the next one."""

from __future__ import annotations

import random
from dataclasses import dataclass

JITTER = 0.1  # part of a pause that is added at random, so that not all return at the same moment
MAX_PROBLEM = 2_000  # characters of a problem that are kept


@dataclass(frozen=True)
class Backoff:
    """``pauses``: seconds after the first, second, … failure in a row; the last one repeats, unless
    ``gives_up``."""

    pauses: tuple[float, ...]
    gives_up: bool = False

    def pause(self, failures: int) -> float | None:
        """Seconds until the attempt after ``failures`` (1 or more) in a row; None: there is no
        further attempt."""
        if failures > len(self.pauses) and self.gives_up:
            return None
        pause = self.pauses[min(failures, len(self.pauses)) - 1]
        return pause * (1 + random.uniform(0, JITTER))
