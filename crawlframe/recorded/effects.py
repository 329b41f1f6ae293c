"""Effects: no code of this process writes files or starts programs while a kept page is tried."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
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
_PROGRAMS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork",
             "os.forkpty")  # fmt: skip
_active: list[str] = []  # the directory of temporary files, which may be written
_installed = False


class Refused(CrawlframeError, PermissionError):
    """Code would have had an effect while a kept page was tried."""


@contextmanager
def without_effects() -> Iterator[None]:
    """Makes Python refuse to write files, apart from temporary ones, and to start processes, in all
    threads of the process. Code of other languages is not seen."""
    global _installed
    if not _installed:  # it cannot be removed, and costs little while nothing is tried
        sys.addaudithook(_judge)
        _installed = True
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    _active.append(os.path.realpath(tempfile.gettempdir()))
    try:
        yield
    finally:
        _active.pop()
        sys.dont_write_bytecode = before


def _judge(event: str, arguments: tuple[Any, ...]) -> None:
    if not _active:
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
    if place != os.devnull and not place.startswith(f"{_active[-1]}{os.sep}"):
        raise Refused(f"{place}: no file is written when a page is tried")


def _named(event: str, arguments: tuple[Any, ...]) -> str:
    return str(arguments[0]) if arguments and isinstance(arguments[0], str) else event
