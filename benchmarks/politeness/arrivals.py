"""Arrivals: the data of a connection, with the time of its receipt by the kernel.

A busy server reads a request late; its log must not make the request look late, and the next one
early. Linux keeps the time: https://docs.kernel.org/networking/timestamping.html"""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from contextlib import suppress

SO_TIMESTAMPING = 37
BY_THE_KERNEL = 1 << 3 | 1 << 4  # SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE
TIMES = struct.Struct("@6q")  # three times of seconds and nanoseconds; the first is the kernel's
MOST = 1 << 16  # bytes that are read at once


def stamp(connection: socket.socket) -> None:
    """Makes the kernel keep the times, where it can. Accepted connections do not inherit it."""
    with suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, BY_THE_KERNEL)


async def receive(connection: socket.socket) -> tuple[bytes, float]:
    """The next bytes (none: the end) and the arrival of the last of them, in seconds since the
    epoch: by the kernel's clock, or where that is unknown, by ours at the reading.

    Raises OSError."""
    while True:
        try:
            data, notes, _, _ = connection.recvmsg(MOST, socket.CMSG_SPACE(TIMES.size))
        except BlockingIOError:
            await _readable(connection)
            continue
        return data, _kept(notes) or time.time()


def has_gone(connection: socket.socket) -> bool:
    """Whether the other side has closed it."""
    try:
        return not connection.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True


def _kept(notes: list[tuple[int, int, bytes]]) -> float:
    for level, kind, data in notes:
        if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPING) and len(data) == TIMES.size:
            times: tuple[int, ...] = TIMES.unpack(data)
            return times[0] + times[1] / 1e9
    return 0.0


async def _readable(connection: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(connection, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(connection)
