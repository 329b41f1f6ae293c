"""Offline: no code of this process reaches a network while recorded pages are replayed."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from crawlframe.errors import CrawlframeError

_EVENTS = ("socket.connect", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo",
           "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo")  # fmt: skip
_active: list[list[str]] = []  # where attempts are noted
_installed = False


class WentOut(CrawlframeError):
    """Something tried to reach the network while recorded pages were replayed."""


@contextmanager
def offline() -> Iterator[list[str]]:
    """Refuses connections of Python's sockets and of pycurl, in all threads of the process; those
    to Unix sockets are allowed. Yields the list of what was tried: the code that tried may have
    caught WentOut."""
    global _installed
    if not _installed:  # it cannot be removed, and costs nothing while nothing is replayed
        sys.addaudithook(_judge)
        _installed = True
    tried: list[str] = []
    _active.append(tried)
    pycurl: Any = sys.modules.get("pycurl")
    before = getattr(pycurl, "Curl", None)
    if pycurl is not None:
        pycurl.Curl = _refuse_curl
    try:
        yield tried
    finally:
        _active[:] = [one for one in _active if one is not tried]
        if pycurl is not None:
            pycurl.Curl = before


def _judge(event: str, arguments: tuple[Any, ...]) -> None:
    if not _active or event not in _EVENTS:
        return
    if event.startswith("socket.get"):
        _refuse(":".join(str(part) for part in arguments[:2] if part))
    elif arguments[0].family in (socket.AF_INET, socket.AF_INET6):
        address = arguments[1]
        _refuse(f"{address[0]}:{address[1]}" if isinstance(address, tuple) else str(address))


def _refuse_curl(*given: Any, **named: Any) -> Any:
    _refuse("a transfer of pycurl")


def _refuse(where: str) -> None:
    _active[-1].append(where)
    raise WentOut(
        f"{where}: recorded pages are replayed without network; fetch with a Request or with "
        "crawler.engine.download, which are recorded"
    )
