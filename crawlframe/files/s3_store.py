"""S3Store: saved files as objects of a bucket. Credentials, region and endpoint are those of the
environment, as in all clients of S3: AWS_ACCESS_KEY_ID, AWS_DEFAULT_REGION, AWS_ENDPOINT_URL."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from crawlframe.errors import FileGone, StoreError
from crawlframe.files.store import ROOM, Stored, path_of

TIMEOUT = 30  # seconds for an answer
TRIES = 3  # by the client
PART = 8 << 20  # bytes of one part of an upload; a file of less than two is sent at once
PARTS_AT_ONCE = 2
PREFIXES = "0123456789abcdef"  # that names begin with: a listing of all would be long


class S3Store:
    """Belongs to the process that uses it first."""

    def __init__(self, address: str, spool: Path) -> None:
        self.address = address.rstrip("/")
        self.spool = spool
        self._place = self.address.partition("://")[2]
        self._lock = threading.Lock()
        self._system: Any = None

    def put(self, local: Path, sha256: str) -> str:
        path, size = path_of(sha256), local.stat().st_size
        if self.size(sha256) != size:
            with self._named_errors():
                self._client().put_file(
                    str(local), self._key(sha256), chunksize=PART, max_concurrency=PARTS_AT_ONCE
                )
            if (found := self.size(sha256)) != size:
                raise StoreError(f"the file store {self.address}: {found} of {size} bytes arrived")
        local.unlink()
        return path

    def size(self, sha256: str) -> int | None:
        with self._named_errors():
            try:
                return int(self._client().info(self._key(sha256), refresh=True)["size"])
            except FileNotFoundError:
                return None

    def open(self, sha256: str) -> BinaryIO:
        with self._named_errors():
            try:
                file: BinaryIO = self._client().open(self._key(sha256), "rb")
            except FileNotFoundError:
                raise FileGone(
                    f"{path_of(sha256)} was deleted from {self.address}", sha256
                ) from None
            return file

    def delete(self, sha256: str) -> None:
        with self._named_errors():
            try:
                self._client().rm_file(self._key(sha256))
            except FileNotFoundError:
                pass

    def files(self) -> Iterator[Stored]:
        for prefix in PREFIXES:
            with self._named_errors():
                place = f"{self._place}/{ROOM}"
                found = self._client().find(place, prefix=prefix, detail=True)
            for key, entry in sorted(found.items()):
                saved_at = entry["LastModified"].timestamp()
                yield Stored(key.rpartition("/")[2], int(entry["size"]), saved_at)

    def _key(self, sha256: str) -> str:
        return f"{self._place}/{path_of(sha256)}"

    def _client(self) -> Any:
        with self._lock:
            if self._system is None:
                import s3fs  # large

                self._system = s3fs.S3FileSystem(
                    endpoint_url=os.environ.get("AWS_ENDPOINT_URL") or None,
                    config_kwargs={
                        "connect_timeout": TIMEOUT,
                        "read_timeout": TIMEOUT,
                        "retries": {"max_attempts": TRIES},
                        # Not all servers that speak S3 know the newer checksums.
                        "request_checksum_calculation": "when_required",
                    },
                    skip_instance_cache=True,
                    use_listings_cache=False,
                )
                self._system.retries = 1  # those of the client are enough
            return self._system

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except StoreError:
            raise
        except Exception as error:  # of the client, whose classes are many
            text = " ".join(str(error).split())[:500]
            raise StoreError(
                f"the file store {self.address}: {text or type(error).__name__}"
            ) from None
