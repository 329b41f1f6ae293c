"""Mailbox: messages from the threads of a process to its main loop."""

from __future__ import annotations

import socket
from pathlib import Path
from queue import Empty, SimpleQueue

import msgspec

from crawlframe.node.supervisor_messages import CheckoutPulled


class FileChanged(msgspec.Struct, frozen=True):
    """WatcherThread to supervisor: a path changed."""

    at: float  # time.monotonic()
    path: Path


FromThread = FileChanged | CheckoutPulled  # the rollout of a pull that none requested is 0


class Mailbox:
    """``fileno`` becomes readable when a message was put in."""

    def __init__(self) -> None:
        self._messages: SimpleQueue[FromThread] = SimpleQueue()
        self._near, self._far = socket.socketpair()
        self._near.setblocking(False)
        self._far.setblocking(False)

    def fileno(self) -> int:
        return self._near.fileno()

    def close(self) -> None:
        self._near.close()
        self._far.close()

    def put(self, message: FromThread) -> None:
        """Adds a message; may be called from any thread."""
        self._messages.put(message)
        try:
            self._far.send(b"!")
        except BlockingIOError:
            pass  # enough wake-ups are waiting

    def take(self) -> list[FromThread]:
        """The messages that have arrived, in order."""
        try:
            while self._near.recv(4096):
                pass
        except BlockingIOError:
            pass
        messages = []
        try:
            while True:
                messages.append(self._messages.get_nowait())
        except Empty:
            return messages
