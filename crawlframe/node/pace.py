"""Pace: answers that arrive together are not handled all at once, or the event loop would start no
fetch meanwhile, and what it then starts would be answered together again."""

from __future__ import annotations

import asyncio
from collections import deque

AT_A_TIME = 4  # callbacks in one iteration of the event loop


class Pace:
    """Of one event loop; first come, first served."""

    def __init__(self) -> None:
        self._left = AT_A_TIME
        self._due = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def turn(self) -> None:
        """Returns when the caller may hold the event loop."""
        if self._left and not self._waiting:
            self._left -= 1
            self._look_again()
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._look_again()
        await turn

    def _look_again(self) -> None:
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        self._due = False
        self._left = AT_A_TIME
        while self._waiting and self._left:
            turn = self._waiting.popleft()
            if not turn.done():  # else whoever waited was cancelled
                turn.set_result(None)
                self._left -= 1
        if self._waiting or not self._left:
            self._look_again()
