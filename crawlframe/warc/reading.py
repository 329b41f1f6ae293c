"""Reads records: one by its place, or all of a file in order, also of files by other programs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from crawlframe.errors import PageDamaged
from crawlframe.warc.gzip_members import INVALID, decompress, members
from crawlframe.warc.records import END, ORIGINAL, CapturePlace, Headers

_LINE = re.compile(rb"\r?\n")
_FOLDED = re.compile(rb"\r?\n[ \t]+")
_STATUS = re.compile(r"\S+ +(\d{3})(?!\d)")
_BODIES = ("response", "resource")


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record. ``kind`` is its WARC-Type; names of ``fields`` are in lower case. ``status`` and
    ``headers`` belong to the HTTP message in it, 0 and () without; headers that describe the body
    as it was sent are as received. ``payload`` follows them."""

    offset: int
    length: int
    kind: str
    fields: dict[str, str]
    status: int
    headers: Headers
    payload: bytes

    @property
    def url(self) -> str:
        return self.fields.get("warc-target-uri", "").strip("<>")

    @property
    def date(self) -> str:
        return self.fields.get("warc-date", "")


def record_of(member: bytes, place: CapturePlace) -> StoredRecord:
    """The record of a capture, which has a body, from the bytes at its place. They have a checksum;
    whether it is the body that is wanted, the caller knows by its digest. Raises PageDamaged."""
    try:
        data = decompress(member)
    except INVALID as error:
        raise _damaged(place, str(error)) from None
    record = _parsed(data, place)
    if record.kind not in _BODIES:
        raise _damaged(place, f"it is a {record.kind}, which has no body")
    return record


def records_of(file: BinaryIO, segment: str, *, growing: bool = False) -> Iterator[StoredRecord]:
    """The records of a file. ``growing``: it is being written, so it may end in the middle of one.
    Raises PageDamaged, and OSError."""
    end = 0
    for member in members(file):
        end = member.offset + member.length
        yield _parsed(member.data, CapturePlace(segment, member.offset, member.length))
    file.seek(end)
    if not growing and file.read(1):
        raise PageDamaged(f"{segment} is damaged at byte {end}: no complete record follows")


def _parsed(data: bytes, place: CapturePlace) -> StoredRecord:
    header, end, rest = data.partition(END)
    if not end or not header.startswith(b"WARC/"):
        raise _damaged(place, "it does not start with WARC/")
    fields = {name.lower(): value for name, value in headers_of(header)}
    try:
        size = int(fields["content-length"])
    except (KeyError, ValueError):
        raise _damaged(place, "it has no Content-Length") from None
    if len(rest) != size + len(END) or not rest.endswith(END):
        raise _damaged(place, f"it has {len(rest) - len(END)} of {size} bytes")
    block = rest[:size]
    status, headers, payload = 0, Headers(), block
    if fields.get("content-type", "").startswith("application/http"):
        status, headers, payload = _message(block)
    kind = fields.get("warc-type", "")
    return StoredRecord(place.offset, place.length, kind, fields, status, headers, payload)


def _message(block: bytes) -> tuple[int, Headers, bytes]:
    head, _, body = block.partition(END)
    status = _STATUS.match(head.decode("latin-1"))
    return (int(status[1]) if status else 0), _received(headers_of(head)), body


def _received(headers: list[tuple[str, str]]) -> Headers:
    """The headers as received, from the stored ones."""
    if not headers or headers[-1][0] != "Content-Length":
        return tuple(headers)
    return tuple((name.removeprefix(ORIGINAL), value) for name, value in headers[:-1])


def headers_of(head: bytes) -> list[tuple[str, str]]:
    """The headers after the first line."""
    found = []
    for line in _LINE.split(_FOLDED.sub(b" ", head))[1:]:
        name, colon, value = line.decode("latin-1").partition(":")
        if colon:
            found.append((name, value.strip()))
    return found


def _damaged(place: CapturePlace, why: str) -> PageDamaged:
    return PageDamaged(f"the record at byte {place.offset} of {place.segment} is damaged: {why}")
