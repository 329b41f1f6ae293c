"""HostDirectory: where a browser host has its socket and the files of its browsers."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

PREFIX = "crawlframe-browser-"
SOCKET = "host.sock"
FILES = "t"  # the directory of the browsers' files
MAX_NAME = 30  # bytes of the name of a directory for temporary files


class HostDirectory:
    """A directory that only this user can enter. This process and its forks hold a lock of it, so
    directories of killed processes are known, and removed, when the next is made."""

    def __init__(self) -> None:
        top = _top()
        for path in top.glob(f"{PREFIX}*"):
            _remove_unused(path)
        self._lock = -1
        while self._lock < 0:  # another process may remove it before it is locked
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=top))
            self._lock = _locked(self.path)
        self.socket = self.path / SOCKET

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _top() -> Path:
    """/tmp where the directory for temporary files has a long name: sockets allow 107 bytes, and
    Chromium makes one three levels below."""
    usual = tempfile.gettempdir()
    return Path(usual if len(os.fsencode(usual)) <= MAX_NAME else "/tmp")


def _remove_unused(path: Path) -> None:
    if (lock := _locked(path)) >= 0:
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


def _locked(path: Path) -> int:
    """A descriptor that holds the lock of a directory of ours; -1 if it is in use, gone, or another
    user's."""
    try:
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return -1
    with contextlib.suppress(OSError):
        if os.fstat(lock).st_uid == os.geteuid():
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists():
                return lock
    os.close(lock)
    return -1
