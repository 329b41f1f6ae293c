"""Content codings undone: gzip, deflate, br and zstd, never beyond a limit of output.

The downloaders ask for ACCEPTED and hand the finished body to ``decode``."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable
from io import BytesIO
from typing import Any, Protocol

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
INPUT = 1 << 14  # bytes given to a decompressor at a time; they may become a thousand times more
OUTPUT = 1 << 20  # bytes taken from brotli at a time


def decode(body: bytes, content_encoding: str, limit: int, url: str) -> bytes:
    """The body without its content codings. What is no known coding is left as it is.

    Raises BadEncoding, and BodyTooLarge when more than ``limit`` bytes come out."""
    names = [name.strip().lower() for name in content_encoding.split(",")]
    codings = [name for name in names if name in _DECODERS]
    if len(codings) > MAX_CODINGS:
        raise BadEncoding(f"{url}: {len(codings)} content codings: {content_encoding[:100]}")
    for name in reversed(codings):
        if not body:
            break
        try:
            body = _DECODERS[name](body, limit)
        except _TooLarge:
            raise BodyTooLarge(
                f"{url}: more than {limit} bytes after decompression ({name}), the limit"
            ) from None
        except (zlib.error, brotli.error, zstd.ZstdError, EOFError, MemoryError) as error:
            raise BadEncoding(f"{url}: the body is not valid {name}: {error}") from None
    return body


class _TooLarge(Exception):
    pass


class _Stream(Protocol):
    """What zlib's and zstd's decompressors have in common."""

    eof: bool
    unused_data: bytes

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


def _unpack(body: bytes, limit: int, new_stream: Callable[[], Any], further: bytes | None) -> bytes:
    """All streams that lie one behind the other. One that does not start with ``further`` ends it,
    whatever it is (browsers ignore it too); None: there is one only."""
    out = BytesIO()
    at = streams = 0
    stream: _Stream | None = None
    while at < len(body):
        if stream is None:
            if streams and (further is None or not body.startswith(further, at)):
                break
            streams += 1
            if streams > MAX_STREAMS:
                raise EOFError(f"more than {MAX_STREAMS} streams in one body")
            stream = new_stream()
        piece = body[at : at + INPUT]  # so that unused_data stays small: each stream copies it
        at += len(piece)
        out.write(stream.decompress(piece, limit + 1 - out.tell()))
        if out.tell() > limit:
            raise _TooLarge
        if stream.eof:
            at -= len(stream.unused_data)
            stream = None
    if stream is not None:
        raise EOFError("it ends too early")
    return out.getvalue()


def _gzip(body: bytes, limit: int) -> bytes:
    return _unpack(body, limit, lambda: zlib.decompressobj(16 + zlib.MAX_WBITS), b"\x1f\x8b")


def _deflate(body: bytes, limit: int) -> bytes:
    """zlib as the standard says, or the bare stream that some servers send."""
    wrapped = len(body) > 1 and body[0] & 0x0F == 8 and (body[0] << 8 | body[1]) % 31 == 0
    wbits = zlib.MAX_WBITS if wrapped else -zlib.MAX_WBITS
    return _unpack(body, limit, lambda: zlib.decompressobj(wbits), None)


def _zstd(body: bytes, limit: int) -> bytes:
    options: dict[int, int] = {zstd.DecompressionParameter.window_log_max: ZSTD_WINDOW}
    return _unpack(body, limit, lambda: zstd.ZstdDecompressor(options=options), b"")


def _brotli(body: bytes, limit: int) -> bytes:
    stream = brotli.Decompressor()
    out = BytesIO()
    data = body
    while not stream.is_finished():
        part = stream.process(data, output_buffer_limit=min(limit + 1 - out.tell(), OUTPUT))
        data = b""
        out.write(part)
        if out.tell() > limit:
            raise _TooLarge
        if not part and not stream.is_finished():
            raise EOFError("it ends too early")
    return out.getvalue()


_DECODERS: dict[str, Callable[[bytes, int], bytes]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    "br": _brotli,
    "zstd": _zstd,
}
