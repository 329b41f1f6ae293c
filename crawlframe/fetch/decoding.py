"""Content codings decoded: gzip, deflate, br and zstd, never beyond a limit of output.

The downloaders send ACCEPTED and pass the complete body to ``decode``, or to ``Decoding`` where
it may become large."""

from __future__ import annotations

import math
import sys
import zlib
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any

import brotli

from crawlframe.errors import BadEncoding, BodyTooLarge

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

ACCEPTED = "gzip, deflate, br, zstd"
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
        names = [name.strip().lower() for name in content_encoding.split(",")]
        self._codings = [name for name in names if name in _DECODERS]
        if len(self._codings) > MAX_CODINGS:
            raise BadEncoding(
                f"{url}: {len(self._codings)} content codings: {content_encoding[:100]}"
            )
        self.body = body
        self.size = 0
        self._limit = limit
        self._url = url
        self._parts: Iterator[bytes] | None = None  # output of the coding that is being decoded
        self._out = BytesIO()

    def advance(self, size: float) -> bool:
        """Goes on until ``size`` more bytes are decoded (or about OUTPUT beyond that), or until all
        codings are. Returns whether all are. Raises BadEncoding and BodyTooLarge."""
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
                self._take(part, name)
            return False
        except (zlib.error, brotli.error, zstd.ZstdError, EOFError, MemoryError) as error:
            raise BadEncoding(f"{self._url}: the body is not valid {name}: {error}") from None

    def _take(self, part: bytes, name: str) -> None:
        if self._out.tell() + len(part) > self._limit:
            raise BodyTooLarge(
                f"{self._url}: more than {self._limit} bytes after decompression ({name}), "
                "which is the limit"
            )
        self._out.write(part)
        self.size += len(part)


def _unpack(
    body: bytes,
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
            if streams and (further is None or not body.startswith(further, at)):
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


def _gzip(body: bytes) -> Iterator[bytes]:
    return _unpack(body, lambda: zlib.decompressobj(16 + zlib.MAX_WBITS), _of_zlib, b"\x1f\x8b")


def _deflate(body: bytes) -> Iterator[bytes]:
    """zlib as in the standard, or the raw stream that some servers send."""
    wrapped = len(body) > 1 and body[0] & 0x0F == 8 and (body[0] << 8 | body[1]) % 31 == 0
    wbits = zlib.MAX_WBITS if wrapped else -zlib.MAX_WBITS
    return _unpack(body, lambda: zlib.decompressobj(wbits), _of_zlib, None)


def _zstd(body: bytes) -> Iterator[bytes]:
    options: dict[int, int] = {zstd.DecompressionParameter.window_log_max: ZSTD_WINDOW}
    return _unpack(body, lambda: zstd.ZstdDecompressor(options=options), _of_zstd, b"")


def _brotli(body: bytes) -> Iterator[bytes]:
    stream = brotli.Decompressor()
    data = body
    while not stream.is_finished():
        part = stream.process(data, output_buffer_limit=OUTPUT)
        data = b""
        yield part
        if not part and not stream.is_finished():
            raise EOFError("it ends too early")


_DECODERS: dict[str, Callable[[bytes], Iterator[bytes]]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    "br": _brotli,
    "zstd": _zstd,
}
