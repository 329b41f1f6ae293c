"""IdleSockets: whether an idle connection has received bytes."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterable

MAX_SOCKETS = 1000  # above this number, closed sockets are forgotten

Place = tuple[str, int]  # local address and port of a connection


class IdleSockets:
    """The sockets of the HTTP/1 connections in one pool of libcurl, which for a second after its
    last use does not look whether a connection is clean. "If a client receives data on a connection
    that does not have outstanding requests, the client MUST NOT consider that data to be a valid
    response" (RFC 9112, 9.2)."""

    def __init__(self) -> None:
        self._sockets: dict[Place, tuple[int, select.poll]] = {}

    def keep(self, place: Place, opened: Iterable[int]) -> None:
        """Adds a connection: that one of the sockets which is at this place."""
        found = next((one for one in opened if _place_of(one) == place), None)
        if found is None:
            return
        poll = select.poll()
        poll.register(found, select.POLLIN)
        self._sockets[place] = found, poll
        if len(self._sockets) > MAX_SOCKETS:
            items = self._sockets.items()
            self._sockets = {at: one for at, one in items if _place_of(one[0]) == at}

    def forget(self, place: Place) -> None:
        """Removes an earlier connection of this place."""
        self._sockets.pop(place, None)

    def has_more(self, place: Place) -> bool:
        """Whether bytes have come that the next response would start with, or the end."""
        found = self._sockets.get(place)
        if found is None:
            return False
        return bool(found[1].poll(0))


def _place_of(descriptor: int) -> Place | None:
    """Returns None if it is closed, or another file has its number now."""
    try:
        with socket.fromfd(descriptor, socket.AF_INET, socket.SOCK_STREAM) as copy:
            address, port, *_ = copy.getsockname()  # in the family that it really has
    except (OSError, ValueError):
        return None
    return address, port
