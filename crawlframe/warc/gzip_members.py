"""Gzip members: each record of a segment is one, so that it can be read alone (WARC 1.1, D)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, NamedTuple

from crawlframe.base import deflate

LEVEL = 1  # of both; higher ones of ISA-L gain 3 % of the size for twice the time
MAGIC = b"\x1f\x8b\x08"  # of a member
INPUT = 1 << 14  # bytes given to a decompressor at a time: each member copies the rest of its input
INVALID: tuple[type[Exception], ...] = (deflate.error, EOFError)


class Member(NamedTuple):
    """A complete member of a file."""

    offset: int
    length: int
    data: bytes


def compress(parts: Iterable[bytes]) -> bytes:
    """Returns one member, of all parts."""
    stream = deflate.compressobj(LEVEL, wbits=deflate.GZIP)
    # In one piece: each call has an output buffer of its own.
    member: bytes = stream.compress(b"".join(parts)) + stream.flush()
    return member


def decompress(member: bytes) -> bytes:
    """Raises one of INVALID unless the data are exactly one member."""
    stream = _decompressor()
    data: bytes = stream.decompress(member)
    if not stream.eof:
        raise EOFError("the compressed data end too early")
    if stream.unused_data:
        raise EOFError("more follows the compressed data")
    return data


def members(file: BinaryIO, *, keep: bool = True) -> Iterator[Member]:
    """The members of a file from where it is on. Ends before the first one that is incomplete or
    damaged. Without ``keep``, their data are checked and dropped. Raises OSError."""
    begin = file.tell()
    rest = b""
    while True:
        stream, data, length = _decompressor(), [], 0
        while not stream.eof:
            piece = rest or file.read(INPUT)
            if not piece:
                return
            try:
                part = stream.decompress(piece)
            except INVALID:
                return
            length += len(piece)
            rest = b""
            if keep:
                data.append(part)
        rest = stream.unused_data
        length -= len(rest)
        yield Member(begin, length, b"".join(data))
        begin += length


def next_member(file: BinaryIO, offset: int, begins: bytes) -> int:
    """The offset of the first complete member behind ``offset`` whose data start with ``begins``;
    -1 if there is none. Raises OSError."""
    while (offset := _find(file, offset + 1)) >= 0:
        file.seek(offset)
        member = next(members(file), None)
        if member is not None and member.data.startswith(begins):
            return offset
    return -1


def _find(file: BinaryIO, offset: int) -> int:
    """The offset of the next possible start of a member; -1 if there is none."""
    file.seek(offset)
    kept = b""
    while piece := file.read(INPUT):
        window = kept + piece
        at = window.find(MAGIC)
        if at >= 0:
            return offset - len(kept) + at
        kept = window[1 - len(MAGIC) :]
        offset += len(piece)
    return -1


def _decompressor() -> Any:
    return deflate.decompressobj(deflate.GZIP)
