"""Signals of a master, which handlers only record: its loop wakes up and takes them in order. And
exit codes of processes."""

from __future__ import annotations

import signal
import socket
from types import FrameType
from typing import Any

HANDED_OVER = 3  # exit code of a master replaced by another; Django's reloader uses it too


class Signals:
    """Records some signals of this process, except those ignored by its starter (nohup). ``fileno``
    becomes readable when one arrives."""

    def __init__(self, *numbers: signal.Signals) -> None:
        self._arrived: list[int] = []
        self._numbers = numbers
        self._before: dict[int, Any] = {}
        self._near, self._far = socket.socketpair()
        self._near.setblocking(False)
        self._far.setblocking(False)
        signal.set_wakeup_fd(self._far.fileno(), warn_on_full_buffer=False)
        for number in numbers:
            before = signal.getsignal(number)
            if before is not signal.SIG_IGN:
                self._before[number] = before
                signal.signal(number, self._record)
        self.unblock()

    def _record(self, number: int, frame: FrameType | None) -> None:
        self._arrived.append(number)

    def fileno(self) -> int:
        return self._near.fileno()

    def close(self) -> None:
        """Restores the previous handlers."""
        signal.set_wakeup_fd(-1)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._near.close()
        self._far.close()

    def block(self) -> None:
        """From now on signals wait; even for the next Signals, if this process executes another
        program."""
        signal.pthread_sigmask(signal.SIG_BLOCK, self._numbers)

    def unblock(self) -> None:
        """Lets them arrive again."""
        signal.pthread_sigmask(signal.SIG_UNBLOCK, self._numbers)

    def drain(self) -> None:
        """Makes ``fileno`` unreadable until the next signal."""
        try:
            while self._near.recv(4096):
                pass
        except BlockingIOError:
            pass

    @property
    def pending(self) -> bool:
        return bool(self._arrived)

    def take(self) -> list[int]:
        """The signals since the last call, in order."""
        taken, self._arrived = self._arrived, []
        return taken


def describe_exit(code: int) -> str:
    """An exit code in words."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:  # a real-time signal
        return f"signal {-code}"
