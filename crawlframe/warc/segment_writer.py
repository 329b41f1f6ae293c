"""SegmentWriter: appends captures to the segments of one worker.

Names of segments, and the files that they are while they are written and afterwards.

``pages-20261126T203000123-node1-4711-00001.warc.gz``: prefix, time, node, worker and number. While
a worker writes one, its name has the suffix .open, and the worker holds a lock on the file, which
ends with the process.
"""

from __future__ import annotations

import logging
import math
import os
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote, unquote

from crawlframe.errors import ArchiveError
from crawlframe.files.spool import lock
from crawlframe.files.store import sync_names
from crawlframe.warc.gzip_members import compress, members, next_member
from crawlframe.warc.records import Capture, CapturePlace, of_capture, of_file

WARC = b"WARC/1.1\r\n"
log = logging.getLogger(__name__)
SUFFIX = ".warc.gz"
OPEN = ".open"
PREFIX = "pages"
_NAME = re.compile(r"[^-/]+-(?P<begun>\d{8}T\d{9})-(?P<node>[^/]+)-\d+-\d+\.warc\.gz")
MAX_BYTES = 1 << 30  # of a segment, after which the next one is begun
CHUNK = 4 << 20  # bytes that are written at a time


def name_of(seconds: float, node: str, worker: int, number: int) -> str:
    moment = datetime.fromtimestamp(seconds, UTC)
    time = f"{moment:%Y%m%dT%H%M%S}{moment.microsecond // 1000:03}"
    return f"{PREFIX}-{time}-{quote(node, safe='')}-{worker}-{number:05}{SUFFIX}"


def node_of(segment: str) -> str:
    """The node that wrote a segment. Raises ArchiveError for any other name."""
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


def is_at(path: Path, descriptor: int) -> bool:
    """Whether an open file still has this name. Raises OSError."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def finish(path: Path, descriptor: int) -> None:
    """Gives an open segment its final name, durably. Raises OSError."""
    os.fsync(descriptor)
    path.rename(path.with_name(path.name.removesuffix(OPEN)))
    sync_names(path.parent)


@contextmanager
def named_errors(directory: object) -> Iterator[None]:
    """Turns an OSError into an ArchiveError."""
    try:
        yield
    except OSError as error:
        raise ArchiveError(f"the archive of pages {directory}: {error}") from None


def recover(directory: Path, node: str | None = None) -> list[str]:
    """Truncates each open segment that no process writes after its last complete record, and gives
    the segment its final name. Damage that complete records follow is left, since synced records
    may be behind it. ``node``: only segments of this node. Returns the names. Reads each of them
    from its start. Raises ArchiveError."""
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
            # Not left by a writer that died: the disk has lost something in between.
            log.error("%s: the bytes %d to %d are damaged, and are left", path, end, later)
        elif records <= 1:  # the warcinfo, at most
            path.unlink()
            return False
        elif end < size:
            log.warning("%s: %d bytes after its last complete record are cut", path, size - end)
            os.ftruncate(file.fileno(), end)
        finish(path, file.fileno())
    return True


class SegmentWriter:
    """Belongs to one thread of one worker process; ``worker`` is its process id. ``max_age``:
    seconds after which a segment is finished at the next ``append`` or ``tick``.

    A place counts once ``sync`` has returned: from then on its record can be read, whatever happens
    to this process or the machine. All methods raise ArchiveError; records appended since the last
    ``sync`` are to be appended again then."""

    def __init__(
        self,
        directory: Path,
        *,
        node: str,
        worker: int,
        software: str,
        max_bytes: int = MAX_BYTES,
        max_age: float = math.inf,
    ) -> None:
        self.directory = directory
        self._node, self._worker = node, worker
        self._software = software
        self._max_bytes, self._max_age = max_bytes, max_age
        self._number = 0
        self._made = False  # the directory: one that goes away is not made again
        self._file = -1
        self._path = directory
        self._begun = 0.0  # when the open segment was, by the monotonic clock
        self._end = 0  # bytes of complete records
        self._torn = False  # there may be more in the file
        self._synced = True

    def append(self, captures: Iterable[Capture]) -> list[CapturePlace]:
        """Writes the records of all captures, or of none, and returns their places, in order."""
        with named_errors(self.directory):
            self._finish_if_due()
            # The open segment must end with a complete record.
            if self._file >= 0 and not is_at(self._path, self._file):
                self._let_go()
            if self._file < 0:
                self._open()
            if self._torn:
                os.ftruncate(self._file, self._end)
                self._torn = False
            segment = self._path.name.removesuffix(OPEN)
            places: list[CapturePlace] = []
            buffer, at, written = bytearray(), self._end, self._end
            self._torn, self._synced = True, False
            for capture in captures:
                first = -1
                for record in of_capture(capture):
                    member = compress(record.parts())
                    if first < 0:
                        first = at
                        places.append(CapturePlace(segment, at, len(member)))
                    buffer += member
                    at += len(member)
                if len(buffer) >= CHUNK:
                    written = self._write(buffer, written)
                    buffer.clear()
            self._end = self._write(buffer, written)
            self._torn = False
            return places

    def sync(self) -> None:
        """Makes the appended records durable."""
        if self._synced:
            return
        try:
            with named_errors(self.directory):
                if not is_at(self._path, self._file):
                    raise ArchiveError(f"the archive of pages: {self._path} is gone")
                os.fdatasync(self._file)
        except ArchiveError:
            # Bytes that the system could not write may be missing from the file by now, although a
            # second attempt would succeed.
            self._let_go()
            raise
        self._synced = True

    def left(self) -> float | None:
        """Seconds until the segment is old enough to be finished; None if it never is."""
        if self._file < 0 or self._max_age == math.inf:
            return None
        return max(0.0, self._begun + self._max_age - time.monotonic())

    def tick(self) -> None:
        """Finishes the segment if it is old enough. After an error, it is tried again when the
        segment is twice as old."""
        with named_errors(self.directory):
            try:
                self._finish_if_due()
            except OSError:
                self._begun = time.monotonic()
                raise

    def close(self) -> None:
        """Finishes the segment."""
        with named_errors(self.directory):
            self._finish()

    def _open(self) -> None:
        if not self._made:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._made = True
        while True:
            self._number += 1
            now = time.time()
            name = name_of(now, self._node, self._worker, self._number)
            path = self.directory / f"{name}{OPEN}"
            try:
                file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o640)
            except FileExistsError:  # of an earlier process with this id
                continue
            # A recovery that saw it before it was locked has deleted it, or is about to.
            if lock(file) and is_at(path, file):
                break
            os.close(file)
        self._file, self._path, self._begun = file, path, time.monotonic()
        self._end, self._torn, self._synced = 0, True, False
        try:
            member = compress(of_file(name, self._software, now).parts())
            self._end = self._write(member, 0)
            self._torn = False
            sync_names(self.directory)
        except OSError:
            self._let_go()
            raise

    def _write(self, data: bytes | bytearray, at: int) -> int:
        """Returns where the data end."""
        view = memoryview(data)
        while view:
            written = os.pwrite(self._file, view, at)
            at += written
            view = view[written:]
        view.release()
        return at

    def _finish_if_due(self) -> None:
        if self._file >= 0 and (
            self._end >= self._max_bytes or time.monotonic() - self._begun >= self._max_age
        ):
            self._finish()

    def _finish(self) -> None:
        if self._file < 0:
            return
        if not is_at(self._path, self._file):
            self._let_go()
            return
        if self._torn:
            os.ftruncate(self._file, self._end)
            self._torn = False
        finish(self._path, self._file)
        self._let_go()

    def _let_go(self) -> None:
        """Leaves the segment as it is to the recovery of the node."""
        file, self._file = self._file, -1
        self._torn, self._synced = False, True
        try:
            os.close(file)
        except OSError:  # of writes that were delayed; only synced records count
            pass
