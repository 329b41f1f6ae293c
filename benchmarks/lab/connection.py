"""Connection: one connection to a server of a benchmark."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import cast


class Connection(asyncio.Protocol, ABC):
    """Receives GET requests one after another; clients do not pipeline."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if self._received.endswith(b"\r\n\r\n"):
            request, self._received = self._received, b""
            self.requested(request)

    @abstractmethod
    def requested(self, request: bytes) -> None:
        """Called with each request: its line and headers."""

    def after(self, latency: float, send: Callable[..., object], *reply: object) -> None:
        """Calls ``send`` with the reply: at once, or after so many seconds."""
        if latency:
            self._loop.call_later(latency, send, *reply)
        else:
            send(*reply)
