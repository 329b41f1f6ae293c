"""FileStore: where saved files are kept, by the hash of their content; equal ones are kept once.
The store of one installation is used by all of its nodes and by the web."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import BinaryIO, NamedTuple
from urllib.parse import quote

from crawlframe.base.storage_url import in_s3
from crawlframe.conf import Settings
from crawlframe.errors import FileGone, StoreError
from crawlframe.files.s3_client import S3Client

ROOM = "sha256"  # folder of the files
SPOOL = "spool"  # folder of unfinished files
FOLDER = "files"  # below var_dir
PREFIXES = "0123456789abcdef"  # first letters of names: a listing of all would be long

_SHA256 = re.compile(r"[0-9a-f]{64}")


class StoreEntry(NamedTuple):
    """A file of the store. ``saved_at``: seconds since the epoch, when it was last put there."""

    sha256: str
    size: int
    saved_at: float


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
    """A store in a local or mounted directory. ``address`` is for messages, ``spool`` a local
    directory of this node for files that are not complete. All methods block, and raise StoreError
    if the store cannot be used."""

    def __init__(self, directory: Path, node: str) -> None:
        self._directory = directory
        self.address = str(directory)
        self.spool = spool_of(directory, node)

    def put(self, local: Path, sha256: str) -> str:
        """Moves a local file to the place of its hash, unless it is there already. When this
        returns, the file is complete and durable. Returns ``path_of(sha256)``."""
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
                sync_names(folder)
        return path

    def size(self, sha256: str) -> int | None:
        """The bytes of a file; None if there is none."""
        with self._named_errors():
            try:
                return (self._directory / path_of(sha256)).stat().st_size
            except FileNotFoundError:
                return None

    def open(self, sha256: str) -> BinaryIO:
        """Opens a file for reading. Raises FileGone if there is none."""
        with self._named_errors():
            try:
                return (self._directory / path_of(sha256)).open("rb")
            except FileNotFoundError:
                raise FileGone(
                    f"{path_of(sha256)} was deleted from {self.address}", sha256
                ) from None

    def delete(self, sha256: str) -> None:
        """Deletes a file, if there is one."""
        with self._named_errors():
            (self._directory / path_of(sha256)).unlink(missing_ok=True)

    def files(self) -> Iterator[StoreEntry]:
        """Everything in the store."""
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


class S3Store:
    """A store in a bucket, with the same methods. Belongs to the process that uses it first."""

    def __init__(self, address: str, spool: Path) -> None:
        self._client = S3Client(address, "the file store", StoreError)
        self.address = self._client.address
        self.spool = spool

    def put(self, local: Path, sha256: str) -> str:
        path = path_of(sha256)
        self._client.put(local, path)
        local.unlink()
        return path

    def size(self, sha256: str) -> int | None:
        return self._client.size(path_of(sha256))

    def open(self, sha256: str) -> BinaryIO:
        path = path_of(sha256)
        with self._client.named_errors():
            try:
                file: BinaryIO = self._client.system().open(self._client.key(path), "rb")
            except FileNotFoundError:
                raise FileGone(f"{path} was deleted from {self.address}", sha256) from None
            return file

    def delete(self, sha256: str) -> None:
        self._client.delete(path_of(sha256))

    def files(self) -> Iterator[StoreEntry]:
        for prefix in PREFIXES:
            with self._client.named_errors():
                place = self._client.key(ROOM)
                found = self._client.system().find(place, prefix=prefix, detail=True)
            for key, entry in sorted(found.items()):
                saved_at = entry["LastModified"].timestamp()
                yield StoreEntry(key.rpartition("/")[2], int(entry["size"]), saved_at)


FileStore = DirectoryStore | S3Store


def _stored(entry: os.DirEntry[str]) -> StoreEntry | None:
    """Returns None if the entry is no file, or was deleted meanwhile."""
    try:
        if not entry.is_file(follow_symlinks=False):
            return None
        found = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    return StoreEntry(entry.name, found.st_size, found.st_mtime)


def sync_names(directory: Path) -> None:
    """Makes the names in a directory durable. Raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_store(settings: Settings) -> FileStore:
    """The store of an installation. Connects to nothing yet."""
    local = settings.var_dir / FOLDER
    if in_s3(settings.files):
        return S3Store(settings.files, spool_of(local, settings.node))
    return DirectoryStore(Path(settings.files) if settings.files else local, settings.node)
