"""Shutdown: lets streaming responses end when the web process is asked to stop."""

from __future__ import annotations

import signal
import threading
from types import FrameType

_requested = threading.Event()


def listen() -> None:
    """Notes SIGTERM from now on, in addition to its present handler."""
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
    """Returns after ``seconds``, or when the process is asked to stop."""
    _requested.wait(seconds)
