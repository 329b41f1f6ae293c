"""Channel: framed msgpack messages over one socket between two processes of a node."""

from __future__ import annotations

import logging
import select
import socket
import struct
from typing import Generic, TypeVar

import msgspec

log = logging.getLogger(__name__)

Out = TypeVar("Out")
In = TypeVar("In")

_LENGTH = struct.Struct("!I")
_ENCODER = msgspec.msgpack.Encoder()
READ = 1 << 18  # bytes


class ChannelClosed(Exception):
    """The other side has closed."""


class Channel(Generic[Out, In]):
    """One end of a pair: sends messages of type ``Out``, receives messages of type ``In``. Only
    ``send_all`` blocks: ``send`` keeps bytes that the socket does not accept, ``flush`` tries
    again.

    ``tolerant``: the other side may be of another version; unreadable messages are ignored."""

    def __init__(
        self, sock: socket.socket, decoder: msgspec.msgpack.Decoder[In], *, tolerant: bool = False
    ) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._decoder = decoder
        self._tolerant = tolerant
        self._out = bytearray()
        self._in = bytearray()

    def fileno(self) -> int:
        return self._sock.fileno()

    @property
    def pending(self) -> bool:
        """Whether there are bytes that the socket has not accepted yet."""
        return bool(self._out)

    @property
    def idle(self) -> bool:
        """Whether no message is half written or half read."""
        return not self._out and not self._in

    def send(self, message: Out) -> None:
        """Queues a message and writes as much as fits. Raises ChannelClosed."""
        body = _ENCODER.encode(message)
        self._out += _LENGTH.pack(len(body))
        self._out += body
        self.flush()

    def send_all(self, message: Out) -> None:
        """Sends a message, and waits until the socket has accepted all of it. Raises
        ChannelClosed."""
        self.send(message)
        while self._out:
            select.select([], [self], [])
            self.flush()

    def flush(self) -> None:
        """Writes as much as fits. Raises ChannelClosed."""
        while self._out:
            try:
                sent = self._sock.send(self._out)
            except BlockingIOError:
                return
            except OSError as error:
                raise ChannelClosed(str(error)) from None
            del self._out[:sent]

    def receive(self) -> list[In]:
        """All complete messages that have arrived. Raises ChannelClosed at end of file, and
        msgspec.ValidationError for an invalid message, unless it is tolerant."""
        messages: list[In] = []
        ended = False
        while True:
            try:
                data = self._sock.recv(READ)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            if not data:
                ended = True
                break
            self._in += data
            start, end = 0, len(self._in)
            while end - start >= _LENGTH.size:
                (size,) = _LENGTH.unpack_from(self._in, start)
                body = start + _LENGTH.size
                if end - body < size:
                    break
                start = body + size
                try:
                    messages.append(self._decoder.decode(self._in[body:start]))
                except msgspec.ValidationError as error:
                    if not self._tolerant:
                        raise
                    log.info("a message of another version is ignored: %s", error)
            del self._in[:start]
            if len(data) < READ:
                break
        if ended and not messages:  # else the last messages still count; the end shows up again
            raise ChannelClosed("end of file")
        return messages

    def close(self) -> None:
        self._sock.close()


def pair(
    left: msgspec.msgpack.Decoder[In], right: msgspec.msgpack.Decoder[Out]
) -> tuple[Channel[Out, In], Channel[In, Out]]:
    """Two connected channels. ``left`` and ``right`` decode their received messages."""
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    return Channel(near, left), Channel(far, right)
