"""Names of segments, and the files that they are while they are written and afterwards.

``pages-20261126T203000123-node1-4711-00001.warc.gz``: prefix, time, node, worker and number. While
a worker writes one, its name has the suffix .open, and the worker holds a lock on the file, which
ends with the process."""

from __future__ import annotations

import fcntl
import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote, unquote

from crawlframe.errors import ArchiveError
from crawlframe.warc.gzip_members import members, next_member

WARC = b"WARC/1.1\r\n"
log = logging.getLogger(__name__)
SUFFIX = ".warc.gz"
OPEN = ".open"
PREFIX = "pages"
_NAME = re.compile(r"[^-/]+-(?P<begun>\d{8}T\d{9})-(?P<node>[^/]+)-\d+-\d+\.warc\.gz")


def name_of(prefix: str, seconds: float, node: str, worker: int, number: int) -> str:
    moment = datetime.fromtimestamp(seconds, UTC)
    time = f"{moment:%Y%m%dT%H%M%S}{moment.microsecond // 1000:03}"
    return f"{prefix}-{time}-{quote(node, safe='')}-{worker}-{number:05}{SUFFIX}"


def node_of(segment: str) -> str:
    """The node that wrote a segment. Raises ArchiveError for what is no name of one."""
    return unquote(_parts(segment)["node"])


def begun_at(segment: str) -> float:
    """Seconds since the epoch, by the clock of its node. Raises ArchiveError."""
    begun = datetime.strptime(_parts(segment)["begun"], "%Y%m%dT%H%M%S%f")
    return begun.replace(tzinfo=UTC).timestamp()


def _parts(segment: str) -> re.Match[str]:
    match = _NAME.fullmatch(segment)
    if match is None:
        raise ArchiveError(f"{segment[:200]!r} is not the name of a segment")
    return match


def is_segment(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def lock(descriptor: int) -> bool:
    """Whether nobody else works on a file. The lock is this process's until the file is closed."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_at(path: Path, descriptor: int) -> bool:
    """Whether an open file is still the one of this name. Raises OSError."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def finish(path: Path, descriptor: int) -> Path:
    """Gives an open segment its final name, durably. Returns its path. Raises OSError."""
    os.fsync(descriptor)
    final = path.with_name(path.name.removesuffix(OPEN))
    path.rename(final)
    sync_names(path.parent)
    return final


def sync_names(directory: Path) -> None:
    """Makes the names in a directory durable. Raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def named_errors(directory: object) -> Iterator[None]:
    """Turns an OSError into an ArchiveError."""
    try:
        yield
    except OSError as error:
        raise ArchiveError(f"the archive of pages {directory}: {error}") from None


def recover(directory: Path, node: str | None = None) -> list[str]:
    """Cuts what follows the last complete record of each open segment that nobody writes, and gives
    the segment its final name. Damage that complete records follow is left, since what was synced
    may be behind it. ``node``: only segments of this node. Returns the names. Reads each of them
    from its beginning. Raises ArchiveError."""
    with named_errors(directory):
        if not directory.is_dir():
            return []
        found = []
        for path in sorted(directory.glob(f"*{OPEN}")):
            name = path.name.removesuffix(OPEN)
            if is_segment(name) and node in (None, node_of(name)) and _recover(path):
                found.append(name)
        return found


def _recover(path: Path) -> bool:
    """Whether there is a finished segment now."""
    try:
        file = path.open("r+b")
    except FileNotFoundError:  # its writer has finished it
        return False
    with file:
        if not lock(file.fileno()) or not is_at(path, file.fileno()):
            return False
        end = records = 0
        for member in members(file, keep=False):
            end = member.offset + member.length
            records += 1
        size = os.fstat(file.fileno()).st_size
        if end < size and (later := next_member(file, end, WARC)) >= 0:
            # Not what a writer leaves that dies: the disk has lost something in between.
            log.error("%s: the bytes %d to %d are damaged, and are left", path, end, later)
        elif records <= 1:  # the warcinfo, at most
            path.unlink()
            return False
        elif end < size:
            log.warning("%s: %d bytes after its last complete record are cut", path, size - end)
            os.ftruncate(file.fileno(), end)
        finish(path, file.fileno())
    return True
