"""Restarts: when a supervisor starts a master again that died."""

from __future__ import annotations

import time

PAUSES = (0.0, 0.5, 1.0, 2.0, 3.0)  # seconds before the next one, by deaths in a row
STEADY = 30.0  # seconds of life after which a death does not count as a repetition


class Restarts:
    """``deaths`` in a row."""

    def __init__(self) -> None:
        self.deaths = 0
        self._at: float | None = None

    def plan(self, lived: float) -> None:
        """A master died that lived so many seconds."""
        if lived > STEADY:
            self.deaths = 0
        self._at = time.monotonic() + PAUSES[min(self.deaths, len(PAUSES) - 1)]
        self.deaths += 1

    @property
    def left(self) -> float | None:
        """Seconds until the next one is due; None when none is."""
        return None if self._at is None else max(0.0, self._at - time.monotonic())

    def take(self) -> bool:
        """Is one due? If so, it is being made."""
        if self._at is None or time.monotonic() < self._at:
            return False
        self._at = None
        return True
