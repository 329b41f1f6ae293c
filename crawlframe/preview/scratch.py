"""Scratch: a temporary directory of one process. It is locked as long as that process or a fork of
it lives; the next one removes those that a killed process has left."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import gettempdir, mkdtemp

PREFIX = "crawlframe-preview-"


@contextmanager
def scratch() -> Iterator[Path]:
    """Yields a new directory, which is removed at the end. Raises OSError."""
    _sweep()
    place, lock = _locked()
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
        os.close(lock)


def _locked() -> tuple[Path, int]:
    """A new directory and its lock. One that another process sweeps in this moment is left to
    it."""
    while True:
        place = Path(mkdtemp(prefix=PREFIX)).resolve()
        if (lock := _lock(place)) is None:
            continue
        if place.exists():
            return place, lock
        os.close(lock)


def _lock(place: Path) -> int | None:
    """An open file that holds the lock of a directory; None if another process has it, or it is
    gone. A link is not followed."""
    try:
        opened = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(opened)
        return None
    return opened


def _sweep() -> None:
    """Removes directories whose processes have ended."""
    for place in Path(gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):
            if place.lstat().st_uid == os.getuid() and (lock := _lock(place)) is not None:
                shutil.rmtree(place, ignore_errors=True)
                os.close(lock)
