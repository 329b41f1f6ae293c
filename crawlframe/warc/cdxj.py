"""CDXJ: the index of an archive, sorted by URL, in the compressed form of WACZ
(https://specs.webrecorder.net/cdxj/0.1.0/): blocks of lines, and a list of the blocks."""

from __future__ import annotations

import hashlib
import heapq
import json
import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from urllib.parse import urlsplit

from crawlframe.warc.gzip_members import compress
from crawlframe.warc.reading import headers_of
from crawlframe.warc.records import Record

RUN = 50_000  # lines that are sorted in memory
REPLAYED = ("response", "revisit", "resource")
BLOCK = 300  # lines, as in py-wacz

_WWW = re.compile(r"^www\d*\.")
_SLASHES = re.compile(r"//+")


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
