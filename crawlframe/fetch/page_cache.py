"""PageCache: pages that were fetched before, to be replayed while a spider is developed. It keeps
everything, whatever HTTP says about caching."""

from __future__ import annotations

import hashlib
import sqlite3
import threading
import time
import weakref
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from crawlframe.base.program import command
from crawlframe.conf import Settings
from crawlframe.errors import CacheUnusable
from crawlframe.request.record import Hop
from crawlframe.request.request import Request
from crawlframe.response.response import Response

PLACE = Path("cache", "pages.sqlite3")  # below var_dir
MAX_SIZE = 1 << 30  # bytes of all pages, compressed
SHRUNK_SHARE = 0.9  # of it, when it is exceeded
CHECK_EVERY = 64  # pages stored between two looks at the size
FAST_LEVEL = 1  # level of zlib
WAIT = 1.0  # seconds for another process that writes; the event loop waits

SCHEMA = """
CREATE TABLE IF NOT EXISTS page (
    key BLOB PRIMARY KEY, url TEXT NOT NULL, status INTEGER NOT NULL, target TEXT,
    headers BLOB NOT NULL, body BLOB NOT NULL, size INTEGER NOT NULL, stored_at REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS page_age ON page (stored_at, size);
"""

_Headers = list[tuple[str, str]]


class Kept(NamedTuple):
    """A page, or a redirect, whose ``hop`` is not None."""

    url: str
    status: int
    headers: _Headers
    body: bytes
    hop: Hop | None

    def response(self, request: Request) -> Response:
        return Response(self.url, self.status, self.headers, self.body, request)


class Extent(NamedTuple):
    pages: int
    size: int  # bytes


class PageCache:
    """A cache in one file, which several processes may use. Used by all threads of a worker.
    ``refresh``: no page is found, so that every page is fetched and kept again. All methods raise
    CacheUnusable if the disk is full, another process holds the file for long, or it is damaged."""

    def __init__(self, path: Path, *, refresh: bool = False, max_size: int = MAX_SIZE) -> None:
        self._path = path
        self._lock = threading.Lock()
        with self._named_errors():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600)  # pages may be private to a login
            self._database = sqlite3.connect(
                path, timeout=WAIT, isolation_level=None, check_same_thread=False
            )
            # Also if the rest fails, or the cache is not used any more.
            weakref.finalize(self, self._database.close).atexit = False
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = OFF")
            self._database.executescript(SCHEMA)
        self._refresh = refresh
        self._max_size = max_size
        self._stored = 0

    @staticmethod
    def delete(path: Path) -> None:
        """Deletes the file, whatever is in it. Raises OSError."""
        for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
            path.with_name(name).unlink(missing_ok=True)

    @classmethod
    def of(cls, settings: Settings) -> PageCache:
        """The cache of a project, used as the settings say."""
        return cls(settings.var_dir / PLACE, refresh=settings.cache == "refresh")

    def find(self, request: Request) -> Kept | None:
        """The kept page of the request. Files are not kept: they are in the file store."""
        if self._refresh or request.options.save:
            return None
        row = self._one("SELECT url, status, target, headers, body FROM page", request)
        if row is None:
            return None
        url, status, target, headers, body = row
        hop = None if target is None else Hop(status, target)
        with self._named_errors():
            decoded = msgspec.json.decode(headers, type=_Headers)
            return Kept(url, status, decoded, zlib.decompress(body), hop)

    def has(self, request: Request) -> bool:
        """Whether ``find`` would find it."""
        if self._refresh or request.options.save:
            return False
        return self._one("SELECT 1 FROM page", request) is not None

    def keep(self, request: Request, response: Response) -> None:
        if not request.options.save:
            self._store(request, response.status, None, response.headers.items(), response.body)

    def keep_redirect(self, request: Request, hop: Hop) -> None:
        self._store(request, hop.status, hop.url, (), b"")

    def extent(self) -> Extent:
        with self._lock, self._named_errors():
            row = self._database.execute("SELECT count(*), total(size) FROM page").fetchone()
        return Extent(int(row[0]), int(row[1]))

    def clear(self) -> None:
        """Deletes everything."""
        with self._lock, self._named_errors():
            self._database.execute("DELETE FROM page")
            self._database.execute("VACUUM")

    def close(self) -> None:
        with self._named_errors():
            self._database.close()

    def _one(self, query: str, request: Request) -> tuple[Any, ...] | None:
        with self._lock, self._named_errors():
            found = self._database.execute(f"{query} WHERE key = ?", (_key(request),))
            row: tuple[Any, ...] | None = found.fetchone()
            return row

    def _store(
        self,
        request: Request,
        status: int,
        target: str | None,
        headers: Iterable[tuple[str, str]],
        body: bytes,
    ) -> None:
        packed, head = (
            zlib.compress(body, FAST_LEVEL),
            msgspec.json.encode([(str(n), value) for n, value in headers]),
        )
        size = len(packed) + len(head)
        with self._lock, self._named_errors():
            self._database.execute(
                "INSERT OR REPLACE INTO page VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (_key(request), request.url, status, target, head, packed, size, time.time()),
            )
            if self._stored % CHECK_EVERY == 0:
                self._shrink()
            self._stored += 1

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, zlib.error, msgspec.DecodeError) as error:
            raise CacheUnusable(
                f"the development cache {self._path} cannot be used: {error}; free some space, end "
                f"what else uses the file, or delete it with `{command('store clear-cache')}`"
            ) from None

    def _shrink(self) -> None:
        """Deletes the oldest pages if there are too many."""
        (size,) = self._database.execute("SELECT total(size) FROM page").fetchone()
        if size <= self._max_size:
            return
        kept, last = 0, 0.0
        newest = "SELECT stored_at, size FROM page ORDER BY stored_at DESC"
        for last, more in self._database.execute(newest):  # noqa: B007
            kept += more
            if kept > SHRUNK_SHARE * self._max_size:
                break
        self._database.execute("DELETE FROM page WHERE stored_at <= ?", (last,))


def _key(request: Request) -> bytes:
    """A key of the fingerprint and the session: pages of different users differ."""
    name = b"%s\0%s" % (request.fingerprint(), (request.options.session or "").encode())
    return hashlib.blake2b(name, digest_size=20).digest()
