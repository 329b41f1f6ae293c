"""FileStore: where saved files are kept, by the hash of their content; equal ones are kept once.
The store of one installation is used by all of its nodes and by the web."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import BinaryIO, NamedTuple, Protocol
from urllib.parse import quote

from crawlframe.errors import FileGone, StoreError

ROOM = "sha256"  # folder of the files
SPOOL = "spool"  # folder of unfinished files

_SHA256 = re.compile(r"[0-9a-f]{64}")


class StoreEntry(NamedTuple):
    """A file of the store. ``saved_at``: seconds since the epoch, when it was last put there."""

    sha256: str
    size: int
    saved_at: float


class FileStore(Protocol):
    """All methods block, and raise StoreError if the store cannot be used."""

    @property
    def address(self) -> str:
        """The address of the store, for messages; without secrets."""

    @property
    def spool(self) -> Path:
        """A local directory of this node for files that are not complete."""

    def put(self, local: Path, sha256: str) -> str:
        """Moves a local file to the place of its hash, unless it is there already. When this
        returns, the file is complete and durable. Returns ``path_of(sha256)``."""

    def size(self, sha256: str) -> int | None:
        """The bytes of a file; None if there is none."""

    def open(self, sha256: str) -> BinaryIO:
        """Opens a file for reading. Raises FileGone if there is none."""

    def delete(self, sha256: str) -> None:
        """Deletes a file, if there is one."""

    def files(self) -> Iterator[StoreEntry]:
        """Everything in the store."""


class StoreRoom:
    """The store, as the files of a response see it."""

    def __init__(self, store: FileStore) -> None:
        self._store = store

    def open(self, sha256: str) -> BinaryIO:
        return self._store.open(sha256)

    def keep(self, data: bytes, sha256: str) -> str:
        """Stores a small file. Raises StoreError."""
        try:
            self._store.spool.mkdir(parents=True, exist_ok=True)
            with NamedTemporaryFile(dir=self._store.spool, suffix=".part", delete=False) as file:
                file.write(data)
        except OSError as error:
            raise StoreError(f"the file store {self._store.address}: {error}") from None
        return self._store.put(Path(file.name), sha256)


def path_of(sha256: str) -> str:
    """The place of a file in any store. Raises StoreError for any other text than a SHA-256."""
    if not _SHA256.fullmatch(sha256):
        raise StoreError(f"{sha256[:100]!r} is not a SHA-256 of 64 lower-case hexadecimal digits")
    return f"{ROOM}/{sha256[:2]}/{sha256[2:4]}/{sha256}"


def spool_of(directory: Path, node: str) -> Path:
    """The spool of a node. Several may share a directory."""
    return directory / SPOOL / f"node-{quote(node, safe='')}"


class DirectoryStore:
    """A store in a local or mounted directory."""

    def __init__(self, directory: Path, node: str) -> None:
        self._directory = directory
        self.address = str(directory)
        self.spool = spool_of(directory, node)

    def put(self, local: Path, sha256: str) -> str:
        path = path_of(sha256)
        target = self._directory / path
        with self._named_errors():
            if self.size(sha256) == local.stat().st_size:
                os.utime(target)
                local.unlink()
                return path
            with local.open("rb") as file:
                os.fsync(file.fileno())
            new = [folder for folder in (target.parent, *target.parents) if not folder.exists()]
            target.parent.mkdir(parents=True, exist_ok=True)
            local.replace(target)
            for folder in {target.parent, *(folder.parent for folder in new)}:
                _sync(folder)
        return path

    def size(self, sha256: str) -> int | None:
        with self._named_errors():
            try:
                return (self._directory / path_of(sha256)).stat().st_size
            except FileNotFoundError:
                return None

    def open(self, sha256: str) -> BinaryIO:
        with self._named_errors():
            try:
                return (self._directory / path_of(sha256)).open("rb")
            except FileNotFoundError:
                raise FileGone(
                    f"{path_of(sha256)} was deleted from {self.address}", sha256
                ) from None

    def delete(self, sha256: str) -> None:
        with self._named_errors():
            (self._directory / path_of(sha256)).unlink(missing_ok=True)

    def files(self) -> Iterator[StoreEntry]:
        with self._named_errors():
            for folder in sorted((self._directory / ROOM).glob("??/??")):
                for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
                    if _SHA256.fullmatch(entry.name) and (found := _stored(entry)):
                        yield found

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreError(f"the file store {self.address}: {error}") from None


def _stored(entry: os.DirEntry[str]) -> StoreEntry | None:
    """Returns None if the entry is no file, or was deleted meanwhile."""
    try:
        if not entry.is_file(follow_symlinks=False):
            return None
        found = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    return StoreEntry(entry.name, found.st_size, found.st_mtime)


def _sync(folder: Path) -> None:
    """Makes the names in a directory durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
