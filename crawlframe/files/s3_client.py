"""S3Client: the client of one place in a bucket. Credentials, region and endpoint come from the
environment, as in all clients of S3: AWS_ACCESS_KEY_ID, AWS_DEFAULT_REGION, AWS_ENDPOINT_URL."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from crawlframe.errors import CrawlframeError

TIMEOUT = 30  # seconds for an answer
TRIES = 3  # by the client
PART = 8 << 20  # bytes of one part of an upload; a file of less than two is sent at once
PARTS_AT_ONCE = 2


class S3Client:
    """The client of an address, which belongs to the process that uses it first. ``what`` names the
    content for messages of ``error``, the class of all its errors."""

    def __init__(self, address: str, what: str, error: type[CrawlframeError]) -> None:
        self.address = address.rstrip("/")
        self.place = self.address.partition("://")[2]
        self._what, self._error = what, error
        self._lock = threading.Lock()
        self._system: Any = None

    def key(self, path: str) -> str:
        return f"{self.place}/{path}"

    def put(self, local: Path, path: str) -> None:
        """Uploads a file, and checks that it has arrived."""
        size = local.stat().st_size
        if self.size(path) != size:
            with self.named_errors():
                self.system().put_file(
                    str(local), self.key(path), chunksize=PART, max_concurrency=PARTS_AT_ONCE
                )
            if (found := self.size(path)) != size:
                raise self._error(f"{self._what} {self.address}: {found} of {size} bytes arrived")

    def size(self, path: str) -> int | None:
        """The bytes of an object; None if there is none."""
        with self.named_errors():
            try:
                return int(self.system().info(self.key(path), refresh=True)["size"])
            except FileNotFoundError:
                return None

    def delete(self, path: str) -> None:
        """Deletes an object, if there is one."""
        with self.named_errors():
            try:
                self.system().rm_file(self.key(path))
            except FileNotFoundError:
                pass

    def system(self) -> Any:
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
                self._system.retries = 1  # the client's own retries are enough
            return self._system

    @contextmanager
    def named_errors(self) -> Iterator[None]:
        try:
            yield
        except CrawlframeError:
            raise
        except Exception as error:  # of the client, whose classes are many
            text = " ".join(str(error).split())[:500]
            raise self._error(
                f"{self._what} {self.address}: {text or type(error).__name__}"
            ) from None
