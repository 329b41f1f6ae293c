"""Isolation: code of this process reaches no network while pages are replayed. While a kept page is
tried, it also writes no files and starts no programs. Code of other languages is not seen."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from crawlframe.errors import CrawlframeError

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# Events of sys.audit: the places of their arguments that are paths, and of the directories that
# these are relative to.
_PATHS = {
    "os.remove": ((0, 1),),
    "os.rmdir": ((0, 1),),
    "os.mkdir": ((0, 2),),
    "os.rename": ((0, 2), (1, 3)),
    "os.link": ((1, 3),),
    "os.symlink": ((1, 2),),
    "os.truncate": ((0, -1),),
    "os.chmod": ((0, 2),),
    "os.chown": ((0, 3),),
    "os.utime": ((0, 3),),
}
_NETWORK = ("socket.connect", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo",
            "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo")  # fmt: skip
_PROGRAMS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork",
             "os.forkpty")  # fmt: skip
_tried: list[list[str]] = []  # where attempts to reach the network are noted, if that is refused
_writable: list[str] = []  # the directory of temporary files, if effects are refused


class WentOut(CrawlframeError):
    """Code tried to reach the network while recorded pages were replayed."""


class Refused(CrawlframeError, PermissionError):
    """Code would have had an effect while a kept page was tried."""


@contextmanager
def offline() -> Iterator[list[str]]:
    """Refuses connections of Python's sockets and of pycurl, in all threads of the process;
    connections to Unix sockets are allowed. Yields the list of attempts: the code that tried may
    have caught WentOut."""
    _install()
    tried: list[str] = []
    _tried.append(tried)
    pycurl: Any = sys.modules.get("pycurl")
    before = getattr(pycurl, "Curl", None)
    if pycurl is not None:
        pycurl.Curl = _refuse_curl
    try:
        yield tried
    finally:
        _tried[:] = [one for one in _tried if one is not tried]
        if pycurl is not None:
            pycurl.Curl = before


@contextmanager
def without_effects() -> Iterator[None]:
    """Makes Python refuse to write files, apart from temporary ones, and to start processes, in all
    threads of the process."""
    _install()
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    _writable.append(os.path.realpath(tempfile.gettempdir()))
    try:
        yield
    finally:
        _writable.pop()
        sys.dont_write_bytecode = before


@cache
def _install() -> None:
    """The hook cannot be removed, and costs little while nothing is refused."""
    sys.addaudithook(_judge)


def _judge(event: str, arguments: tuple[Any, ...]) -> None:
    if _tried and event in _NETWORK:
        _judge_address(event, arguments)
    if not _writable:
        return
    if event == "open":
        path, _, flags = arguments
        if isinstance(flags, int) and flags & _WRITING and not isinstance(path, int):
            _judge_path(path)
    elif event in _PATHS:
        for path, directory in _PATHS[event]:
            _judge_path(arguments[path], arguments[directory] if directory > 0 else -1)
    elif event in _PROGRAMS:
        raise Refused(f"{_named(event, arguments)}: no process is started when a page is tried")


def _judge_path(path: Any, directory: Any = -1) -> None:
    if isinstance(path, int):  # a file that is open
        return
    place = os.fsdecode(path)
    if isinstance(directory, int) and directory >= 0:
        place = f"{os.path.realpath(f'/proc/self/fd/{directory}')}{os.sep}{place}"
    place = os.path.realpath(place)
    if place != os.devnull and not place.startswith(f"{_writable[-1]}{os.sep}"):
        raise Refused(f"{place}: no file is written when a page is tried")


def _named(event: str, arguments: tuple[Any, ...]) -> str:
    return str(arguments[0]) if arguments and isinstance(arguments[0], str) else event


def _judge_address(event: str, arguments: tuple[Any, ...]) -> None:
    if event.startswith("socket.get"):
        _refuse(":".join(str(part) for part in arguments[:2] if part))
    elif arguments[0].family in (socket.AF_INET, socket.AF_INET6):
        address = arguments[1]
        _refuse(f"{address[0]}:{address[1]}" if isinstance(address, tuple) else str(address))


def _refuse_curl(*given: Any, **named: Any) -> Any:
    _refuse("a transfer of pycurl")


def _refuse(where: str) -> None:
    _tried[-1].append(where)
    raise WentOut(
        f"{where}: recorded pages are replayed without network; fetch with a Request or with "
        "crawler.engine.download, which are recorded"
    )
