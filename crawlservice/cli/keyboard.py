"""Keys as they are pressed, without Enter."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager


class Keyboard:
    """``key`` waits up to a number of seconds for a key; "" if none came, or there is no
    keyboard."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    def key(self, seconds: float) -> str:
        watched = [] if self._descriptor is None else [self._descriptor]
        readable, _, _ = select.select(watched, [], [], seconds)
        if not readable or self._descriptor is None:
            return ""
        pressed = os.read(self._descriptor, 1)
        if not pressed:  # end of input: nothing more will come
            self._descriptor = None
        return pressed.decode(errors="replace")


@contextmanager
def keyboard() -> Iterator[Keyboard]:
    """Restores the terminal afterwards. Ctrl-C still interrupts."""
    descriptor = sys.stdin.fileno() if sys.stdin is not None and sys.stdin.isatty() else None
    if descriptor is None:
        yield Keyboard(None)
        return
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield Keyboard(descriptor)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
