"""SendTime: from when on a request may be sent, and that it was."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

TICK = 0.001  # seconds: the resolution of the event loop's timers, which may fire that much early


class SendTime:
    """The send time of a request. ``due``: time.monotonic() before which it must not be sent; None:
    at once. ``sent`` is called in the event loop whenever it is sent. ``clock`` returns seconds."""

    __slots__ = ("_clock", "_due", "_started", "_waited", "sent")

    def __init__(
        self,
        due: float | None = None,
        sent: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.sent = sent
        self._due = due
        self._waited = 0.0
        self._clock = clock
        self._started = clock()

    async def wait(self) -> float:
        """Waits until the request may be sent, and returns no earlier. Returns for how many
        seconds; a downloader calls it when nothing but the connection is missing."""
        if self._due is None:
            return 0.0
        began = self._clock()
        while (left := self._due - time.monotonic()) > 0:
            await asyncio.sleep(max(TICK, left))
        waited = self._clock() - began
        self._waited += waited
        return waited

    def elapsed(self) -> float:
        """Seconds since this was made, without the wait."""
        return self._clock() - self._started - self._waited
