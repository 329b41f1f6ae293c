"""Spool: files on their way into the store. The part that a broken transfer leaves is kept there
for a while, so that the next attempt on the same node can continue it.

Each file is locked while a process works on it, and the lock ends with the process."""

from __future__ import annotations

import fcntl
import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

PART, NOTE = ".part", ".json"
KEPT_SECONDS = 6 * 3600.0  # seconds that the beginning of a file is kept
UNUSED_SECONDS = 60.0  # seconds after which a file without use or lock is deleted


class Partial:
    """The beginning of a file, open for writing at its end, and locked. ``validator`` identifies
    the content that it is the beginning of, "" if nothing does. Raises OSError."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path = path
        self.size = 0
        self.validator = ""
        self._file = file
        self._note = path.with_suffix(NOTE)

    def load(self, url: str) -> None:
        """Continues the part, if it came from this URL; otherwise starts anew."""
        with suppress(OSError, ValueError, TypeError, KeyError):
            note = json.loads(self._note.read_bytes())
            # After a crash of the machine, bytes may be missing that were counted.
            if note["url"] == url and note["boot"] == _boot():
                self.validator = str(note["validator"])
                self.size = self._file.seek(0, os.SEEK_END)
        if not self.size:
            self.restart()

    def restart(self) -> None:
        """Drops the part."""
        self._note.unlink(missing_ok=True)  # first: it must not describe other bytes
        self._file.seek(0)
        self._file.truncate()
        self.size, self.validator = 0, ""

    def describe(self, url: str, validator: str) -> None:
        """Notes the source of the bytes that follow."""
        self.validator = validator
        draft = self._note.with_suffix(f".{uuid4().hex}")
        draft.write_text(json.dumps({"url": url, "validator": validator, "boot": _boot()}))
        draft.replace(self._note)

    def write(self, chunk: bytes) -> None:
        self._file.write(chunk)
        self.size += len(chunk)

    def complete(self) -> None:
        """Completes the file: no attempt will continue it."""
        self._file.flush()
        self._note.unlink(missing_ok=True)

    def close(self) -> None:
        """Keeps the bytes for another attempt if something identifies them. May be repeated."""
        if self._file.closed:
            return
        with suppress(OSError):
            if not (self.validator and self.size):
                self._note.unlink(missing_ok=True)
                self.path.unlink(missing_ok=True)
        with suppress(OSError):
            self._file.close()

    def discard(self) -> None:
        """Deletes the part."""
        self.validator = ""
        self.close()

    def moved(self) -> None:
        """Closes the file, which was moved to another path."""
        self._file.close()


class Spool:
    """A directory of one node."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def open(self, name: str, url: str) -> Partial:
        """The file of this name, with the part that an earlier attempt has left of ``url``. If
        another process works on it, it is a new file. Raises OSError."""
        self.directory.mkdir(parents=True, exist_ok=True)
        partial = self._locked(name) or self._locked(f"{name}-{uuid4().hex}")
        assert partial is not None
        partial.load(url)
        return partial

    def sweep(self, now: float | None = None) -> int:
        """Deletes files of killed processes that no attempt will continue. Returns how many. Raises
        OSError."""
        now = time.time() if now is None else now
        if not self.directory.is_dir():
            return 0
        swept = 0
        for path in sorted(self.directory.iterdir()):
            with suppress(FileNotFoundError):
                age = now - path.stat().st_mtime
                described = path.suffix == PART and path.with_suffix(NOTE).exists()
                needed = path.suffix == NOTE and path.with_suffix(PART).exists()
                if not needed and age > (KEPT_SECONDS if described else UNUSED_SECONDS):
                    swept += _delete(path)
        return swept

    def _locked(self, name: str) -> Partial | None:
        """Returns None if another process works on it."""
        path = self.directory / f"{name}{PART}"
        while True:
            file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o640), "r+b")
            if not lock(file.fileno()):
                file.close()
                return None
            if os.fstat(file.fileno()).st_nlink:  # it was not deleted before it was locked
                return Partial(path, file)
            file.close()


def lock(descriptor: int) -> bool:
    """Whether no other process works on a file. The lock ends when the file is closed."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _delete(path: Path) -> bool:
    """Deletes a file and its note, unless a process works on it."""
    with path.open("rb") as file:
        if not lock(file.fileno()):
            return False
        path.with_suffix(NOTE).unlink(missing_ok=True)
        path.unlink(missing_ok=True)
    return True


def _boot() -> str:
    """Identifies this run of the machine; "" where it cannot be known."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
