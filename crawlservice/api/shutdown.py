"""Stopping: whether this web process was asked to end, for answers that would go on for minutes."""

from __future__ import annotations

import signal
import threading
from types import FrameType

_requested = threading.Event()


def listen() -> None:
    """From now on SIGTERM is noted too, beside what is done about it already."""
    before = signal.getsignal(signal.SIGTERM)
    if not callable(before) or threading.current_thread() is not threading.main_thread():
        return

    def note(number: int, frame: FrameType | None) -> None:
        _requested.set()
        before(number, frame)

    signal.signal(signal.SIGTERM, note)


def is_requested() -> bool:
    return _requested.is_set()


def wait(seconds: float) -> None:
    """Until so much time is over, or somebody asks us to end."""
    _requested.wait(seconds)
