"""Archives as downloads, streamed: a WARC file, or a WACZ, which is a ZIP of it with an index and a
list of pages (https://specs.webrecorder.net/wacz/1.1.1/). The index is sorted by URL, and is in
compressed blocks of lines, with a list of the blocks (https://specs.webrecorder.net/cdxj/0.1.0/)."""

from __future__ import annotations

import hashlib
import heapq
import json
import re
import time
import zipfile
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, Any, NamedTuple
from urllib.parse import urlsplit
from uuid import uuid4

from crawlframe.warc.gzip_members import compress
from crawlframe.warc.reading import headers_of
from crawlframe.warc.records import Capture, Record, date_of, of_capture, of_file, visible

FORMATS = {".warc.gz": "application/warc", ".wacz": "application/wacz"}
CHUNK = 1 << 18  # bytes that are given out at a time, at least
WARC, INDEX = "data.warc.gz", "index.cdx.gz"
RUN = 50_000  # lines that are sorted in memory
REPLAYED = ("response", "revisit", "resource")
BLOCK = 300  # lines, as in py-wacz
_WWW = re.compile(r"^www\d*\.")
_SLASHES = re.compile(r"//+")


def warc_of(captures: Iterable[Capture], name: str, software: str) -> Iterator[bytes]:
    """A WARC file of this name. Raises errors of ``captures``."""
    out = _Output()
    out.write(compress(of_file(name, software, time.time()).parts()))
    for capture in captures:
        for record in of_capture(capture, block_digests=True):
            out.write(compress(record.parts()))
        yield from out.take()
    yield from out.take(last=True)


def wacz_of(captures: Iterable[Capture], name: str, software: str) -> Iterator[bytes]:
    """A WACZ file. ``name``: its title, without a suffix. Raises errors of ``captures``."""
    out = _Output()
    files: list[dict[str, Any]] = []
    with (
        zipfile.ZipFile(out, "w") as archive,
        CdxjIndex() as index,
        TemporaryFile() as pages,
        TemporaryFile() as blocks,
    ):
        pages.write(_line({"format": "json-pages-1.0", "id": "pages", "title": "All pages"}))
        with _Entry(archive, f"archive/{WARC}", files) as entry:
            entry.write(compress(of_file(WARC, software, time.time()).parts()))
            for capture in captures:
                for record in of_capture(capture, block_digests=True):
                    member = compress(record.parts())
                    index.add(record, entry.size, len(member), WARC)
                    entry.write(member)
                if _is_page(capture):
                    pages.write(_page(capture))
                yield from out.take()
        blocks.write(b"!meta 0 ")
        blocks.write(_line({"format": "cdxj-gzip-1.0", "filename": INDEX}))
        with _Entry(archive, f"indexes/{INDEX}", files) as entry:
            for block in index.blocks(INDEX):
                entry.write(block.data)
                blocks.write(block.line.encode())
                yield from out.take()
        for path, source in (("indexes/index.idx", blocks), ("pages/pages.jsonl", pages)):
            with _Entry(archive, path, files) as entry:
                source.seek(0)
                while some := source.read(CHUNK):
                    entry.write(some)
                    yield from out.take()
        package = _package(name, software, files)
        digest = {"path": "datapackage.json", "hash": _digest(package)}
        archive.writestr("datapackage.json", package)
        archive.writestr("datapackage-digest.json", json.dumps(digest))
    yield from out.take(last=True)


class _Output:
    """A file that is only written, whose bytes are taken from the other end."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def write(self, data: bytes, /) -> int:
        self._parts.append(bytes(data))
        self._size += len(data)
        return len(data)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass

    def take(self, *, last: bool = False) -> Iterator[bytes]:
        if self._size and (last or self._size >= CHUNK):
            data = b"".join(self._parts)
            self._parts, self._size = [], 0
            yield data


class _Entry:
    """A file of the ZIP, which is not compressed, so that parts of it can be read. When it is
    complete, ``files`` has its entry for the package."""

    def __init__(self, archive: zipfile.ZipFile, path: str, files: list[dict[str, Any]]) -> None:
        self.size = 0
        self._path, self._files = path, files
        self._digest = hashlib.sha256()
        now = datetime.now(UTC).timetuple()[:6]
        self._file: IO[bytes] = archive.open(zipfile.ZipInfo(path, now), "w", force_zip64=True)

    def __enter__(self) -> _Entry:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        digest = f"sha256:{self._digest.hexdigest()}"
        name = self._path.rpartition("/")[2]
        about = {"name": name, "path": self._path, "hash": digest, "bytes": self.size}
        self._files.append(about)

    def write(self, data: bytes) -> None:
        self._file.write(data)
        self._digest.update(data)
        self.size += len(data)


def _is_page(capture: Capture) -> bool:
    """Whether it is a page where a reader starts."""
    kind = next((value for name, value in capture.headers if name.lower() == "content-type"), "")
    return capture.status == 200 and kind.lower().startswith(("text/html", "application/xhtml"))


def _page(capture: Capture) -> bytes:
    url = visible(capture.url)
    return _line({"id": uuid4().hex, "url": url, "ts": date_of(capture.fetched_at)})


def _package(title: str, software: str, files: list[dict[str, Any]]) -> str:
    described = {
        "profile": "data-package",
        "wacz_version": "1.1.1",
        "title": title,
        "software": software,
        "created": date_of(time.time()),
        "resources": files,
    }
    return json.dumps(described, indent=2)


def _digest(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _line(value: dict[str, str]) -> bytes:
    return json.dumps(value).encode() + b"\n"


class IndexBlock(NamedTuple):
    """A compressed block of the index, and its line in the list of blocks."""

    data: bytes
    line: str


class CdxjIndex:
    """Lines are added in any order, and are sorted on disk. Use it as a context manager."""

    def __init__(self) -> None:
        self._folder = TemporaryDirectory(prefix="crawlframe-cdxj-")
        self._runs: list[Path] = []
        self._lines: list[str] = []

    def __enter__(self) -> CdxjIndex:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def add(self, record: Record, offset: int, length: int, file_name: str) -> None:
        """Adds a record that is at this place of a WARC file, if it is one that is replayed."""
        fields = {name.lower(): value for name, value in headers_of(record.header)}
        kind = fields["warc-type"]
        if kind not in REPLAYED:
            return
        status, mime = "200", fields["content-type"]
        if record.head:
            status = record.head.split(b" ", 2)[1].decode()
            received = {name.lower(): value for name, value in headers_of(record.head)}
            mime = received.get("content-type", "")
        entry = {
            "url": fields["warc-target-uri"],
            "mime": "warc/revisit" if kind == "revisit" else mime.partition(";")[0].strip(),
            "status": status,
            "digest": fields["warc-payload-digest"],
            "length": str(length),
            "offset": str(offset),
            "filename": file_name,
        }
        key = f"{surt(entry['url'])} {timestamp(fields['warc-date'])}"
        self._lines.append(f"{key} {json.dumps(entry)}\n")
        if len(self._lines) >= RUN:
            self._spill()

    def blocks(self, file_name: str) -> Iterator[IndexBlock]:
        """All lines, in order. ``file_name``: of the index, in the list of blocks."""
        self._spill()
        files = [path.open(encoding="ascii") for path in self._runs]
        try:
            offset, lines = 0, []
            for line in heapq.merge(*files):
                lines.append(line)
                if len(lines) == BLOCK:
                    yield (block := _block(lines, offset, file_name))
                    offset, lines = offset + len(block.data), []
            if lines:
                yield _block(lines, offset, file_name)
        finally:
            for file in files:
                file.close()

    def _spill(self) -> None:
        if self._lines:
            path = Path(self._folder.name) / str(len(self._runs))
            path.write_text("".join(sorted(self._lines)), encoding="ascii")
            self._runs.append(path)
            self._lines = []


def surt(url: str) -> str:
    """The key of a URL, its Sort-friendly URI Reordering Transform, as py-wacz computes it."""
    parts = urlsplit(url.lower())
    host = parts.hostname or ""
    key = host if ":" in host else ",".join(reversed(_WWW.sub("", host).split(".")))
    if parts.port is not None and parts.port != {"http": 80, "https": 443}.get(parts.scheme):
        key += f":{parts.port}"
    path = _SLASHES.sub("/", parts.path)
    key += f"){path.rstrip('/') or '/'}"
    if parts.query:
        key += f"?{'&'.join(sorted(parts.query.split('&')))}"
    return key


def timestamp(date: str) -> str:
    """A WARC-Date as 14 digits."""
    return "".join(filter(str.isdigit, date))[:14]


def _block(lines: list[str], offset: int, file_name: str) -> IndexBlock:
    data = compress([line.encode("ascii") for line in lines])
    key, moment, _ = lines[0].split(" ", 2)
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    place = {"offset": offset, "length": len(data), "digest": digest, "filename": file_name}
    return IndexBlock(data, f"{key} {moment} {json.dumps(place)}\n")
