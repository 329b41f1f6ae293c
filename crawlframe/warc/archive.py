"""Archive of segments, and reading from it: a directory that all nodes share, or that the only node
uses, or a bucket that each node uploads its finished segments to."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from crawlframe.base.bounded_dict import BoundedDict
from crawlframe.base.storage_url import in_s3
from crawlframe.conf import Settings
from crawlframe.errors import ArchiveError, RecordElsewhere, RecordGone
from crawlframe.files.s3_client import S3Client
from crawlframe.files.store import spool_of
from crawlframe.warc.reading import StoredRecord, record_of, records_of
from crawlframe.warc.records import CapturePlace
from crawlframe.warc.segment_writer import (
    OPEN,
    SUFFIX,
    begun_at,
    is_segment,
    named_errors,
    node_of,
)

FOLDER = "pages"  # of the spool, below var_dir
FILES = 32  # that are kept open
GAP = 1 << 18  # bytes between two records that are fetched together
RUN = 8 << 20  # bytes of records that are fetched together
UPLOAD_AGE = 300.0  # seconds that a segment is written to, if it is to be uploaded
UPLOADED_BY = 3600.0  # seconds after its start, when a missing segment is reported


class DirectoryArchive:
    """An archive in a directory. ``address`` is for messages, ``directory`` where the workers of
    this node write. ``uploads``: whether segments are elsewhere once they are finished;
    ``max_age``: seconds after which one is. Used by several threads. All methods raise
    ArchiveError."""

    uploads = False
    max_age = math.inf

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.address = str(directory)
        # Descriptors, the last used at the end.
        self._files: BoundedDict[str, int] = BoundedDict(FILES, lambda _, file: os.close(file))
        self._lock = threading.Lock()

    def read(self, place: CapturePlace) -> StoredRecord:
        """The record at a place, with its body as payload. Raises RecordGone, RecordElsewhere and
        PageDamaged."""
        with named_errors(self.address):
            member = self.member(place)
        if member is None:
            raise self._missing(place.segment)
        return record_of(member, place)

    def read_all(self, places: Collection[CapturePlace]) -> dict[CapturePlace, StoredRecord]:
        """As ``read`` for several places, in less time if they are close to each other."""
        return {place: self.read(place) for place in places}

    def read_here(self, place: CapturePlace) -> StoredRecord | None:
        """As ``read``; None if another machine has to be asked."""
        return self.read(place)

    def member(self, place: CapturePlace) -> bytes | None:
        """The bytes at a place; None if there is no such segment. Raises OSError."""
        with self._lock:
            file = self._files.pop(place.segment, -1)
            if file < 0:
                if (path := self.path_of(place.segment)) is None:
                    return None
                file = os.open(path, os.O_RDONLY)
            self._files[place.segment] = file
            return os.pread(file, place.length, place.offset)

    def open(self, segment: str) -> BinaryIO:
        """Opens a segment for reading. Raises RecordGone and RecordElsewhere."""
        with named_errors(self.address):
            if (path := self.path_of(segment)) is None:
                raise self._missing(segment)
            return path.open("rb")

    def _missing(self, segment: str) -> ArchiveError:
        if self.directory.is_dir():
            return RecordGone(f"{segment} was deleted from {self.address}")
        return ArchiveError(
            f"the archive of pages {self.address}: there is no such directory on this machine; "
            "CRAWLFRAME_PAGES must name one that all nodes and the web share"
        )

    def path_of(self, segment: str) -> Path | None:
        """The file of a segment, finished or not."""
        if not is_segment(segment):
            raise ArchiveError(f"{segment[:200]!r} is not the name of a segment")
        final = self.directory / segment
        growing = final.with_name(f"{segment}{OPEN}")
        # It may be finished between two looks.
        return next((path for path in (final, growing, final) if path.exists()), None)

    def upload(self) -> list[str]:
        """Brings the finished segments of this node to where all nodes can read them. Returns the
        names of new ones."""
        return []

    def size(self, segment: str) -> int | None:
        """The bytes of a segment of this node where all nodes can read it, 0 if it is gone; None
        while it is written, or not uploaded."""
        with named_errors(self.address):
            path = self.path_of(segment)
            if path is None:
                return 0
            return None if path.suffix == OPEN else path.stat().st_size

    def delete(self, segment: str) -> None:
        """Deletes a finished segment, if it is there."""
        with self._lock:
            file = self._files.pop(segment, -1)
            if file >= 0:
                os.close(file)
        with named_errors(self.address):
            if is_segment(segment):
                (self.directory / segment).unlink(missing_ok=True)

    def segments(self) -> Iterator[tuple[str, int]]:
        """The finished segments and their sizes."""
        with named_errors(self.address):
            if self.directory.is_dir():
                for path in sorted(self.directory.glob(f"*{SUFFIX}")):
                    if is_segment(path.name):
                        yield path.name, path.stat().st_size


class S3Archive:
    """An archive in a bucket, with the same methods. ``spool`` is a local directory of this node,
    which has the segments that are not uploaded."""

    uploads = True
    max_age = UPLOAD_AGE

    def __init__(self, address: str, spool: Path, node: str) -> None:
        self._client = S3Client(address, "the archive of pages", ArchiveError)
        self.address = self._client.address
        self.directory = spool
        self._spool = DirectoryArchive(spool)
        self._node = node

    def read(self, place: CapturePlace) -> StoredRecord:
        return self.read_here(place) or self._fetch([place])[place]

    def read_all(self, places: Collection[CapturePlace]) -> dict[CapturePlace, StoredRecord]:
        found = {place: self.read_here(place) for place in places}
        read = {place: record for place, record in found.items() if record is not None}
        for some in _runs(place for place in places if place not in read):
            read |= self._fetch(some)
        return read

    def read_here(self, place: CapturePlace) -> StoredRecord | None:
        with named_errors(self.directory):
            member = self._spool.member(place)
        return None if member is None else record_of(member, place)

    def _fetch(self, places: Sequence[CapturePlace]) -> dict[CapturePlace, StoredRecord]:
        """Fetches places in the same segment, in order, all at once."""
        segment, start, _ = places[0]
        with self._client.named_errors():
            try:
                data: bytes = self._client.system().cat_file(
                    self._client.key(segment), start=start, end=_end(places[-1])
                )
            except FileNotFoundError:
                raise self._missing(segment) from None
        return {p: record_of(data[p.offset - start : _end(p) - start], p) for p in places}

    def open(self, segment: str) -> BinaryIO:
        with named_errors(self.directory):
            if (path := self._spool.path_of(segment)) is not None:
                return path.open("rb")
        with self._client.named_errors():
            try:
                file: BinaryIO = self._client.system().open(self._client.key(segment), "rb")
            except FileNotFoundError:
                raise self._missing(segment) from None
            return file

    def _missing(self, segment: str) -> ArchiveError:
        node = node_of(segment)
        if node != self._node and time.time() - begun_at(segment) < UPLOADED_BY:
            return RecordElsewhere(
                f"{segment} is on node {node} until it is uploaded to {self.address}, "
                f"{UPLOAD_AGE / 60:.0f} minutes after its start; try again then"
            )
        return RecordGone(
            f"{segment} was deleted from {self.address}, or node {node} could not upload it"
        )

    def upload(self) -> list[str]:
        uploaded = []
        for segment, _ in [*self._spool.segments()]:
            self._client.put(self.directory / segment, segment)
            self._spool.delete(segment)
            uploaded.append(segment)
        return uploaded

    def size(self, segment: str) -> int | None:
        with named_errors(self.directory):
            if self._spool.path_of(segment) is not None:
                return None
        return self._client.size(segment) or 0

    def delete(self, segment: str) -> None:
        self._spool.delete(segment)
        self._client.delete(segment)

    def segments(self) -> Iterator[tuple[str, int]]:
        yield from self._spool.segments()
        with self._client.named_errors():
            found = self._client.system().find(self._client.place, detail=True)
        for key, entry in sorted(found.items()):
            if is_segment(name := key.rpartition("/")[2]):
                yield name, int(entry["size"])


Archive = DirectoryArchive | S3Archive


def open_archive(settings: Settings) -> Archive | None:
    """The archive of an installation; None if pages are kept in the database. Connects to nothing
    yet."""
    if not settings.pages:
        return None
    if in_s3(settings.pages):
        spool = spool_of(settings.var_dir / FOLDER, settings.node)
        return S3Archive(settings.pages, spool, settings.node)
    return DirectoryArchive(Path(settings.pages))


def records_in(archive: Archive, segment: str) -> Iterator[StoredRecord]:
    """The records of a segment, in order."""
    with archive.open(segment) as file:
        yield from records_of(file, segment, growing=str(getattr(file, "name", "")).endswith(OPEN))


def _runs(places: Iterable[CapturePlace]) -> Iterator[list[CapturePlace]]:
    """The places, in runs that are worth one request each."""
    run: list[CapturePlace] = []
    for place in sorted(places):
        if run and not (
            place.segment == run[0].segment
            and place.offset - _end(run[-1]) <= GAP
            and _end(place) - run[0].offset <= RUN
        ):
            yield run
            run = []
        run.append(place)
    if run:
        yield run


def _end(place: CapturePlace) -> int:
    return place.offset + place.length
