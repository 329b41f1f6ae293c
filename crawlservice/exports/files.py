"""Files: batches as files in a directory, an object store or on an SFTP server. Each has the name
of its batch and appears when it is complete, so an attempt that is repeated replaces it by the
same."""

from __future__ import annotations

import gzip
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

from crawlframe import faults
from crawlservice.exports.addresses import check_path, directory_of
from crawlservice.exports.batch import Batch, Limits
from crawlservice.exports.definition import FilesTarget
from crawlservice.exports.object_stores import open_store
from crawlservice.exports.writer import BatchName, TargetError
from crawlservice.tasks.export import stream_chunks

COLUMNS = 2_000  # most columns of CSV and Parquet files


class FilesWriter:
    def __init__(self, target: FilesTarget) -> None:
        age = timedelta(minutes=target.max_minutes)
        columns = 0 if target.format == "jsonl" else COLUMNS
        self.limits = Limits(target.max_rows, target.max_mb << 20, age, columns)
        self._target = target
        self._store: Any = None
        self._remote = "://" in target.url

    def send(self, name: BatchName, batch: Batch) -> str:
        file = f"{name}.{self._target.format}{'.gz' if self._target.gzip else ''}"
        return self._upload(file, batch) if self._remote else self._place(file, batch)

    def test(self, name: BatchName, empty: Batch) -> None:
        """Writes an empty file and deletes it."""
        file = f".{name}.test"
        if self._remote:
            self._upload(file, empty)
            self._store.remove(file)
        else:
            Path(self._place(file, empty)).unlink()

    def close(self) -> None:
        self._store = None

    def _place(self, file: str, batch: Batch) -> str:
        """Renames it into place when it is on the disk."""
        check_path(self._target.url, _misplaced)  # this node may have another directory
        directory = directory_of(self._target.url)
        directory.mkdir(parents=True, exist_ok=True)
        draft = directory / f".{file}.{uuid4().hex}.part"
        try:
            with draft.open("wb") as out:
                self._write(out, batch)
                os.fsync(out.fileno())
            faults.at("export.write.before")
            draft.replace(directory / file)
            _sync(directory)
            faults.at("export.write.after")
        finally:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
        for left in directory.glob(f".{file}.*.part"):  # of an attempt that was killed
            with suppress(OSError):
                left.unlink()
        return str(directory / file)

    def _upload(self, file: str, batch: Batch) -> str:
        if self._store is None:
            self._store = open_store(self._target)
        with tempfile.NamedTemporaryFile(suffix=".part") as out:
            self._write(out, batch)
            out.flush()
            faults.at("export.write.before")
            place: str = self._store.put(Path(out.name), file)
            faults.at("export.write.after")
        return place

    def _write(self, out: IO[bytes], batch: Batch) -> None:
        pieces = stream_chunks(batch.chunks, f".{self._target.format}", batch.kinds)
        with _compressed(out) if self._target.gzip else _plain(out) as sink:
            for piece in pieces:
                sink(piece)


def _misplaced(field: str, text: str) -> TargetError:
    return TargetError(f"{field}: {text}")


Sink = Callable[[bytes], object]


@contextmanager
def _plain(out: IO[bytes]) -> Iterator[Sink]:
    yield out.write


@contextmanager
def _compressed(out: IO[bytes]) -> Iterator[Sink]:
    # Without a name and a time, so that the same rows make the same file.
    with gzip.GzipFile("", "wb", fileobj=out, mtime=0) as packed:
        yield packed.write


def _sync(directory: Path) -> None:
    """Makes a rename last, whatever happens to the machine."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
