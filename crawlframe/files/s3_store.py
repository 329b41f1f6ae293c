"""S3Store: saved files as objects of a bucket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from crawlframe.errors import FileGone, StoreError
from crawlframe.files.s3_client import S3Client
from crawlframe.files.store import ROOM, StoreEntry, path_of

PREFIXES = "0123456789abcdef"  # that names begin with: a listing of all would be long


class S3Store:
    """Belongs to the process that uses it first."""

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
