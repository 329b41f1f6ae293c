"""SegmentWriter: appends captures to the segments of one worker."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable
from pathlib import Path

from crawlframe.errors import ArchiveError
from crawlframe.warc.capture import Capture, CapturePlace
from crawlframe.warc.gzip_members import compress
from crawlframe.warc.records import of_capture, of_file
from crawlframe.warc.segment_files import (
    OPEN,
    PREFIX,
    finish,
    is_at,
    lock,
    name_of,
    named_errors,
    sync_names,
)

MAX_BYTES = 1 << 30  # of a segment, after which the next one is begun
CHUNK = 4 << 20  # bytes that are written at a time


class SegmentWriter:
    """Belongs to one thread of one worker process; ``worker`` is its process id. ``max_age``:
    seconds after which a segment is finished at the next ``append`` or ``tick``.

    A place counts once ``sync`` has returned: from then on its record can be read, whatever
    happens to this process or the machine. All methods raise ArchiveError; what was appended since
    the last ``sync`` is to be appended again then."""

    def __init__(
        self,
        directory: Path,
        *,
        node: str,
        worker: int,
        software: str,
        prefix: str = PREFIX,
        max_bytes: int = MAX_BYTES,
        max_age: float = math.inf,
    ) -> None:
        self.directory = directory
        self._node, self._worker, self._prefix = node, worker, prefix
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
            self._take_up()
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
        """Makes durable what was appended."""
        if self._synced:
            return
        try:
            with named_errors(self.directory):
                if not is_at(self._path, self._file):
                    raise ArchiveError(f"the archive of pages: {self._path} is gone")
                os.fdatasync(self._file)
        except ArchiveError:
            # What the system could not write may be missing from the file by now, although a
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

    def _take_up(self) -> None:
        """Makes the open segment one that ends with a complete record."""
        if self._file >= 0 and not is_at(self._path, self._file):
            self._let_go()
        if self._file < 0:
            self._open()
        if self._torn:
            os.ftruncate(self._file, self._end)
            self._torn = False

    def _open(self) -> None:
        if not self._made:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._made = True
        while True:
            self._number += 1
            now = time.time()
            name = name_of(self._prefix, now, self._node, self._worker, self._number)
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
        except OSError:  # of writes that were delayed; only what was synced counts
            pass
