"""Saving: the body of one fetch on its way into the file store, without being in memory. The bytes
are written to the spool as they come; then they are decoded, hashed, and put in their place."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Collection
from contextlib import ExitStack
from email.utils import parsedate_to_datetime
from pathlib import Path
from uuid import uuid4

from multidict import CIMultiDict

from crawlframe.base.decoding import codings_of, decode_file, encoding_in
from crawlframe.base.media_type import HEAD, essence_of, is_generic, is_wanted, media_type
from crawlframe.conf import Settings
from crawlframe.errors import (
    BadResponse,
    BodyTooLarge,
    ConnectionLost,
    FileNotStored,
    FileRefused,
    StoreError,
)
from crawlframe.files.saved_file import SavedFile
from crawlframe.files.spool import Partial, Spool
from crawlframe.files.store import FileStore, StoreRoom, open_store
from crawlframe.request.request import Request
from crawlframe.spider.settings import SpiderSettings

READ = 1 << 20  # bytes that are hashed at a time
TYPE_BYTES = 512  # bytes that show the type of most files
MIN_BYTES = 1 << 20  # bytes from which a file is worth being resumed
VALIDATOR_SECONDS = 60.0  # after which a Last-Modified is a strong validator (RFC 9110, 8.8.2.2)

_CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)")
_OWN = frozenset({"range", "if-range"})

Headers = CIMultiDict[str]


class FileSaver:
    """Saves files for the fetches of one process."""

    def __init__(self, settings: Settings) -> None:
        self._store = open_store(settings)
        self._spool = Spool(self._store.spool)

    def begin(self, request: Request, settings: SpiderSettings, rid: bytes = b"") -> Saving | None:
        """Returns a Saving for the body of a request; None if it is not to be saved. ``rid``: its
        id, which leads its next attempt to the part that this attempt leaves."""
        wanted = request.options.save
        if not wanted:
            return None
        own = request.options.max_body
        name = rid.hex() if rid and request.method == "GET" else uuid4().hex
        return Saving(
            self._store,
            self._spool,
            f"{name}-{hashlib.sha256(request.url.encode()).hexdigest()[:16]}",
            () if wanted is True else wanted,
            settings.max_file if own is None else own,
            resumes=bool(rid) and request.method == "GET",
        )

    async def sweep(self) -> None:
        """Deletes files of killed processes in the spool of this node. Raises OSError."""
        await asyncio.to_thread(self._spool.sweep)


class Saving:
    """The body of one fetch. Use it from one task or thread at a time, as a context manager.

    ``types``: media types that are saved, all if empty. ``limit``: bytes, also after decompression.
    ``file`` is the result, ``status`` of the whole: 200 for a file whose rest was sent with 206."""

    def __init__(
        self,
        store: FileStore,
        spool: Spool,
        name: str,
        types: Collection[str] = (),
        limit: int = 1 << 30,
        *,
        resumes: bool = True,
    ) -> None:
        self.limit = limit
        self.status = 0
        self.file: SavedFile | None = None
        self._store = store
        self._spool = spool
        self._name = name
        self._types = types
        self._resumes = resumes
        self._partial: Partial | None = None
        self._begun: bool | None = None  # None: the head is not known; False: it is not saved
        self._asked = 0  # the first byte that was asked for
        self._end: int | None = None  # bytes of the whole, as sent
        self._ranged = False  # the author's own headers ask for a part
        self._coded = False
        self._declared = ""
        self._placing = self._closed = False
        self._url = self._where = ""

    def __enter__(self) -> Saving:
        return self

    def __exit__(self, *error: object) -> None:
        self._closed = True  # a thread of the requests downloader may continue
        if self._partial is not None and not self._placing:
            self._partial.close()

    def headers_for(
        self, url: str, where: str, headers: list[tuple[str, str]]
    ) -> list[tuple[str, str]]:
        """Additional headers of the next transfer, which ask for the rest of an earlier part.
        ``where``: the URL for messages. Raises FileNotStored."""
        self._url, self._where, self._begun, self._end, self._asked = url, where, None, None, 0
        self._ranged = any(name.lower() in _OWN for name, _ in headers)
        partial = self._open(url)
        if self._ranged or not (partial.size and partial.validator and self._resumes):
            return []
        self._asked = partial.size
        return [("Range", f"bytes={partial.size}-"), ("If-Range", partial.validator)]

    def begin(self, status: int, headers: Headers) -> bool:
        """Whether the body of this response is saved: not of an error or a redirect. Raises
        FetchError for a body that must not be saved."""
        self._begun, self.status = False, status
        partial = self._open(self._url)
        if status == 416 and self._asked:
            partial.discard()
            self._partial = None
            raise ConnectionLost(f"{self._where}: the rest of the file cannot be had; it changed")
        if not 200 <= status < 300:
            return False
        try:
            self._prepare(partial, status, headers)
        except OSError as error:
            raise self._not_stored(error) from None
        self._begun = True
        return True

    def write(self, chunk: bytes) -> None:
        """Takes a part of the body, as it is sent. Raises FetchError."""
        partial = self._open(self._url)
        if partial.size + len(chunk) > self.limit:
            raise self.too_large()
        if not partial.size and len(chunk) >= TYPE_BYTES and self._types and not self._coded:
            self._check(media_type(self._declared, chunk[:HEAD]))
        try:
            partial.write(chunk)
        except OSError as error:
            raise self._not_stored(error) from None

    async def finish(self, status: int, headers: Headers, body: bytes | None) -> bool:
        """Puts the file in its place, if the response is one that is saved; returns whether it is.
        ``body``: of a downloader that has it in memory. Raises FetchError."""
        if self._begun is None and not self.begin(status, headers):
            return False
        if not self._begun:
            return False
        if body is None:
            raise self.too_large()
        if body:
            self.write(body)
        partial = self._open(self._url)
        if self._end is not None and partial.size != self._end:
            if partial.size > self._end:
                partial.discard()
            raise ConnectionLost(
                f"{self._where}: {partial.size} of {self._end} bytes of the file arrived"
            )
        self._placing = True
        # If this is cancelled, the thread continues, and holds the lock of the file meanwhile.
        coding = encoding_in(headers)
        await asyncio.shield(asyncio.to_thread(self._place, partial, coding))
        return True

    def too_large(self) -> BodyTooLarge:
        return BodyTooLarge(
            f"{self._where}: the file is larger than {self.limit} bytes, which is the limit; see "
            "max_file"
        )

    def _prepare(self, partial: Partial, status: int, headers: Headers) -> None:
        """Decides whether the body is the rest of the file, or all of it."""
        rest = self._rest(partial, status, headers) if self._asked else None
        if rest:
            self.status = 200
        if rest is None:
            partial.restart()
        elif not rest:
            partial.discard()
            self._partial = None
            raise ConnectionLost(f"{self._where}: the server did not send the rest of the file")
        self._coded = bool(codings_of(encoding_in(headers), self._url))
        self._declared = essence_of(headers.get("Content-Type", ""))
        if self._types and not is_generic(self._declared):
            self._check(self._declared)
        length = headers.get("Content-Length", "")
        if length.isdecimal() and "Transfer-Encoding" not in headers:
            self._end = partial.size + int(length)
            if self._end > self.limit:
                raise self.too_large()
        if rest is None and status == 206 and not self._ranged:
            raise BadResponse(f"{self._where}: a part of the file was sent unasked")
        large = self._end is None or self._end >= MIN_BYTES
        if rest is None and large and self._resumes and not (self._ranged or self._coded):
            partial.describe(self._url, _validator(headers))

    def _rest(self, partial: Partial, status: int, headers: Headers) -> bool | None:
        """Whether this is the rest of the file; None if it is all of it."""
        if status != 206:
            return None
        found = _CONTENT_RANGE.fullmatch(headers.get("Content-Range", ""))
        if found is None or int(found[1]) != self._asked or "Content-Encoding" in headers:
            return False
        if found[3] != "*" and int(found[2]) + 1 != int(found[3]):
            return False
        tag = headers.get("ETag", "")
        return not (tag and partial.validator.startswith('"') and tag != partial.validator)

    def _check(self, kind: str) -> None:
        if self._types and not is_wanted(kind, self._types):
            raise FileRefused(
                f"{self._where}: the file is {kind}; the request saves {', '.join(self._types)}"
            )

    def _place(self, partial: Partial, coding: str) -> None:
        """Runs in a thread."""
        source = partial
        try:
            with ExitStack() as cleaning:
                cleaning.callback(partial.discard)
                partial.complete()
                for name in reversed(codings_of(coding, self._where)):
                    decoded = self._spool.open(f"{self._name}-{uuid4().hex}", self._url)
                    cleaning.callback(decoded.discard)
                    decode_file(source.path, name, decoded.write, self.limit, self._where)
                    decoded.complete()
                    source = decoded
                sha256, head = _digest(source.path)
                kind = media_type(self._declared, head)
                self._check(kind)
                path = self._store.put(source.path, sha256)
                source.moved()
        except (OSError, StoreError) as error:
            raise self._not_stored(error) from None
        saved = SavedFile(self._url, path, sha256, source.size, kind)
        self.file = saved.within(StoreRoom(self._store))

    def _open(self, url: str) -> Partial:
        if self._closed:
            raise FileNotStored(f"{self._where}: the fetch was given up")
        if self._partial is None:
            try:
                self._partial = self._spool.open(self._name, url)
            except OSError as error:
                raise self._not_stored(error) from None
        return self._partial

    def _not_stored(self, error: Exception) -> FileNotStored:
        return FileNotStored(f"{self._where}: it could not be stored: {error}")


def _digest(path: Path) -> tuple[str, bytes]:
    """The SHA-256 of a file, and its first HEAD bytes. Raises OSError."""
    digest, head = hashlib.sha256(), b""
    with path.open("rb") as file:
        while chunk := file.read(READ):
            head = head or chunk[:HEAD]
            digest.update(chunk)
    return digest.hexdigest(), head


def _validator(headers: Headers) -> str:
    """A header that identifies the content exactly, for If-Range; "" if none does, or if the server
    sends no parts."""
    tag = headers.get("ETag", "").strip()
    if headers.get("Accept-Ranges", "").strip().lower() == "none":
        return ""
    if tag:
        return tag if tag.startswith('"') else ""
    modified = headers.get("Last-Modified", "").strip()
    try:
        age = parsedate_to_datetime(headers["Date"]) - parsedate_to_datetime(modified)
    except (KeyError, TypeError, ValueError):
        return ""
    return modified if age.total_seconds() >= VALIDATOR_SECONDS else ""
