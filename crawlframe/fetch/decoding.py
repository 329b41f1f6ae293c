"""Content codings undone: gzip, deflate, br and zstd, never beyond a limit of output.

The downloaders ask for ACCEPTED and hand the finished body to ``decode``, or to ``Decoding`` where
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
MAX_CODINGS = 4  # one on the other; who sends more means harm
ZSTD_WINDOW = 23  # log2 of the most memory a frame may ask for: RFC 9659 allows 8 MiB on the web
MAX_STREAMS = 10_000  # gzip members or zstd frames in one body
INPUT = 1 << 14  # bytes given to a decompressor at a time: each stream copies what is left of them
OUTPUT = 1 << 18  # bytes taken from a decompressor at a time; brotli gives somewhat more


def decode(body: bytes, content_encoding: str, limit: int, url: str) -> bytes:
    """The body without its content codings. What is no known coding is left as it is.

    Raises BadEncoding, and BodyTooLarge when more than ``limit`` bytes come out."""
    decoding = Decoding(body, content_encoding, limit, url)
    decoding.advance(math.inf)
    return decoding.body


class Decoding:
    """Undoes the content codings of a body step by step, so that memory can be asked for as it is
    needed. Steps may run in different threads, one at a time.

    ``body`` is the result once ``advance`` has returned True. ``size`` is how many bytes have come
    out so far, of all codings together."""

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
        self._parts: Iterator[bytes] | None = None  # of the coding that is being undone
        self._out = BytesIO()

    def advance(self, size: float) -> bool:
        """Goes on until ``size`` bytes more have come out, or about OUTPUT more than that, or until
        all codings are undone. True: they are. Raises BadEncoding and BodyTooLarge."""
        end = self.size + size
        while self.body and self._codings:
            if not self._undo(self._codings[-1], end):
                return False
            # The value of a BytesIO is its buffer, not a copy of it.
            self.body, self._out, self._parts = self._out.getvalue(), BytesIO(), None
            self._codings.pop()
        return True

    def _undo(self, name: str, end: float) -> bool:
        """Undoes one coding until ``size`` is ``end``. True: it is undone."""
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
                f"{self._url}: more than {self._limit} bytes after decompression ({name}), the "
                "limit"
            )
        self._out.write(part)
        self.size += len(part)


def _unpack(
    body: bytes,
    new_stream: Callable[[], Any],
    parts: Callable[[Any, bytes], Iterator[bytes]],
    further: bytes | None,
) -> Iterator[bytes]:
    """All streams that lie one behind the other. ``parts`` gives what comes out of a stream for a
    piece of the body. A stream that does not start with ``further`` ends it, whatever it is
    (browsers ignore it too); None: there is one only."""
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
    """zlib as the standard says, or the bare stream that some servers send."""
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
