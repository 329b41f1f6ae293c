"""Channel: framed msgpack messages over one socket between a master and a child."""

from __future__ import annotations

import socket
import struct
from typing import Any

import msgpack

_LENGTH = struct.Struct("!I")
READ = 1 << 18  # bytes


class ChannelClosed(Exception):
    """The other side is gone."""


class Channel:
    """One end of a pair. Never blocks: ``send`` keeps what the socket does not take, ``flush``
    tries again. Messages are lists of what msgpack can carry."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._out = bytearray()
        self._in = bytearray()

    @classmethod
    def pair(cls) -> tuple[Channel, Channel]:
        """Two connected ends."""
        left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        return cls(left), cls(right)

    def fileno(self) -> int:
        return self._sock.fileno()

    @property
    def pending(self) -> bool:
        """Is there something that the socket has not taken yet?"""
        return bool(self._out)

    @property
    def idle(self) -> bool:
        """Is nothing half written or half read?"""
        return not self._out and not self._in

    def send(self, *message: Any) -> None:
        """Queues a message and writes what fits. Raises ChannelClosed."""
        body = msgpack.packb(message)
        self._out += _LENGTH.pack(len(body))
        self._out += body
        self.flush()

    def flush(self) -> None:
        """Writes what fits. Raises ChannelClosed."""
        while self._out:
            try:
                sent = self._sock.send(self._out)
            except BlockingIOError:
                return
            except OSError as error:
                raise ChannelClosed(str(error)) from None
            del self._out[:sent]

    def receive(self) -> list[list[Any]]:
        """All whole messages that have arrived. Raises ChannelClosed at end of file."""
        messages: list[list[Any]] = []
        while True:
            try:
                data = self._sock.recv(READ)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            if not data:
                if messages:
                    break  # what was said last still counts; the end shows again next time
                raise ChannelClosed("end of file")
            self._in += data
            start = 0
            while len(self._in) - start >= 4:
                (size,) = _LENGTH.unpack_from(self._in, start)
                if len(self._in) - start - 4 < size:
                    break
                body = self._in[start + 4 : start + 4 + size]
                messages.append(msgpack.unpackb(body, strict_map_key=False))
                start += 4 + size
            del self._in[:start]
            if len(data) < READ:
                break
        return messages

    def close(self) -> None:
        self._sock.close()
