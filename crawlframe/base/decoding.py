"""Content codings decoded: gzip, deflate, br and zstd, never beyond a limit of output.

The downloaders send ACCEPTED and pass the complete body to ``decode``, or to ``Decoding`` where
it may become large."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import brotli
from multidict import MultiMapping

from crawlframe.base import deflate, zstd
from crawlframe.errors import BadEncoding, BodyTooLarge

ACCEPTED = "gzip, deflate, br, zstd"
INVALID = (deflate.error, brotli.error, zstd.ZstdError, EOFError, MemoryError)  # of decompressors
MAX_CODINGS = 4  # nested in each other; a server that sends more means harm
ZSTD_WINDOW = 23  # log2 of the memory a frame may require: RFC 9659 allows 8 MiB on the web
MAX_STREAMS = 10_000  # gzip members or zstd frames in one body
INPUT = 1 << 14  # bytes given to a decompressor at a time: each stream copies the rest of its input
OUTPUT = 1 << 18  # bytes taken from a decompressor at a time; brotli returns somewhat more


def decode(body: bytes, content_encoding: str, limit: int, url: str) -> bytes:
    """The body without its content codings. Unknown codings are left as they are.

    Raises BadEncoding, and BodyTooLarge when the output exceeds ``limit`` bytes."""
    decoding = Decoding(body, content_encoding, limit, url)
    decoding.advance(math.inf)
    return decoding.body


class Decoding:
    """Decodes the content codings of a body step by step, so that memory can be requested as it is
    needed. Steps may run in different threads, one at a time.

    ``body`` is the result once ``advance`` has returned True. ``size`` counts the bytes decoded so
    far, over all codings."""

    def __init__(self, body: bytes, content_encoding: str, limit: int, url: str) -> None:
        """Raises BadEncoding when there are too many codings."""
        self._codings = codings_of(content_encoding, url)
        self.body = body
        self.size = 0
        self._limit = limit
        self._url = url
        self._parts: Iterator[bytes] | None = None  # output of the coding that is being decoded
        self._out = BytesIO()

    def advance(self, size: float) -> bool:
        """Continues until ``size`` more bytes are decoded (or about OUTPUT beyond that), or until
        all codings are. Returns whether all are. Raises BadEncoding and BodyTooLarge."""
        end = self.size + size
        while self.body and self._codings:
            if not self._undo(self._codings[-1], end):
                return False
            # The value of a BytesIO shares its buffer and is not a copy.
            self.body, self._out, self._parts = self._out.getvalue(), BytesIO(), None
            self._codings.pop()
        return True

    def _undo(self, name: str, end: float) -> bool:
        """Decodes one coding until ``size`` is ``end``. Returns whether the coding is complete."""
        if self._parts is None:
            self._parts = _DECODERS[name](self.body)
        try:
            while self.size < end:
                part = next(self._parts, None)
                if part is None:
                    return True
                check_size(self._out.tell() + len(part), self._limit, name, self._url)
                self._out.write(part)
                self.size += len(part)
            return False
        except INVALID as error:
            raise BadEncoding(f"{self._url}: the body is not valid {name}: {error}") from None


class FileBody:
    """The content of a file in place of a body in memory."""

    def __init__(self, file: BinaryIO) -> None:
        self._descriptor = file.fileno()
        self._size = os.fstat(self._descriptor).st_size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, part: slice) -> bytes:
        first = part.start or 0
        return os.pread(self._descriptor, part.stop - first, first)


Body = bytes | FileBody


def decode_file(
    source: Path, coding: str, take: Callable[[bytes], object], limit: int, url: str
) -> None:
    """Passes a file without one of its content codings to ``take``. Raises as ``decode``, and
    OSError."""
    size = 0
    with source.open("rb") as file:
        body = FileBody(file)
        try:
            for part in _DECODERS[coding](body) if len(body) else ():
                size += len(part)
                check_size(size, limit, coding, url)
                take(part)
        except INVALID as error:
            raise BadEncoding(f"{url}: the body is not valid {coding}: {error}") from None


def encoding_in(headers: MultiMapping[str]) -> str:
    """All headers Content-Encoding of a response, joined."""
    return ",".join(headers.getall("Content-Encoding", []))


def codings_of(content_encoding: str, url: str) -> list[str]:
    """The codings that can be undone, in the order of their application. Raises BadEncoding if
    there are too many."""
    names = [name.strip().lower() for name in content_encoding.split(",")]
    codings = [name for name in names if name in _DECODERS]
    if len(codings) > MAX_CODINGS:
        raise BadEncoding(f"{url}: {len(codings)} content codings: {content_encoding[:100]}")
    return codings


def check_size(size: int, limit: int, name: str, url: str) -> None:
    """Raises BodyTooLarge."""
    if size > limit:
        raise BodyTooLarge(
            f"{url}: more than {limit} bytes after decompression ({name}), which is the limit"
        )


def _unpack(
    body: Body,
    new_stream: Callable[[], Any],
    parts: Callable[[Any, bytes], Iterator[bytes]],
    further: bytes | None,
) -> Iterator[bytes]:
    """The output of all streams that follow each other. ``parts`` yields the output of a stream for
    a piece of the body. A stream that does not start with ``further`` ends the body without an
    error, as in browsers; None: there is only one stream."""
    at = streams = 0
    stream = None
    while at < len(body):
        if stream is None:
            if streams and (further is None or body[at : at + len(further)] != further):
                break
            streams += 1
            if streams > MAX_STREAMS:
                raise EOFError(f"more than {MAX_STREAMS} streams in one body")
            stream = new_stream()
        piece = body[at : at + INPUT]
        at += len(piece)
        yield from parts(stream, piece)
        if stream.eof:
            at -= len(stream.unused_data)
            stream = None
    if stream is not None:
        raise EOFError("it ends too early")


def _of_zlib(stream: Any, data: bytes) -> Iterator[bytes]:
    part = stream.decompress(data, OUTPUT)
    yield part
    while not stream.eof and (stream.unconsumed_tail or len(part) == OUTPUT):
        part = stream.decompress(stream.unconsumed_tail, OUTPUT)
        yield part


def _of_zstd(stream: Any, data: bytes) -> Iterator[bytes]:
    yield stream.decompress(data, OUTPUT)
    while not stream.eof and not stream.needs_input:
        yield stream.decompress(b"", OUTPUT)


def _gzip(body: Body) -> Iterator[bytes]:
    return _unpack(body, lambda: deflate.decompressobj(deflate.GZIP), _of_zlib, b"\x1f\x8b")


def _deflate(body: Body) -> Iterator[bytes]:
    """zlib as in the standard, or the raw stream that some servers send."""
    head = body[:2]
    wrapped = len(head) > 1 and head[0] & 0x0F == 8 and int.from_bytes(head) % 31 == 0
    wbits = deflate.ZLIB if wrapped else deflate.RAW
    return _unpack(body, lambda: deflate.decompressobj(wbits), _of_zlib, None)


def _zstd(body: Body) -> Iterator[bytes]:
    options: dict[int, int] = {zstd.DecompressionParameter.window_log_max: ZSTD_WINDOW}
    return _unpack(body, lambda: zstd.ZstdDecompressor(options=options), _of_zstd, b"")


def _brotli(body: Body) -> Iterator[bytes]:
    stream = brotli.Decompressor()
    piece, at = len(body) if isinstance(body, bytes) else INPUT, 0
    while not stream.is_finished():
        data = body[at : at + piece] if stream.can_accept_more_data() else b""
        at += len(data)
        part = stream.process(data, output_buffer_limit=OUTPUT)
        yield part
        if not part and not data and not stream.is_finished():
            raise EOFError("it ends too early")


_DECODERS: dict[str, Callable[[Body], Iterator[bytes]]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    "br": _brotli,
    "zstd": _zstd,
}
