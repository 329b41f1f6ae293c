"""Stored: the body of a page as it is stored, by the digest of its content and compressed, and the
response that it becomes again.

The data are the body as its server sent it, after the name of its content coding and a colon; or,
where that is unknown, a frame of Zstandard."""

from __future__ import annotations

import hashlib

from crawlframe.base.decoding import decode
from crawlframe.base.secret import MASK
from crawlframe.base.zstd import ZstdCompressor, ZstdDecompressor, ZstdError
from crawlframe.errors import BadEncoding, BodyTooLarge, PageDamaged
from crawlframe.request.request import Request
from crawlframe.response.browser_response import RenderedResponse
from crawlframe.response.coded_body import CodedBody
from crawlframe.response.response import Response
from crawlframe.response.stored_page import StoredPage

LEVEL = 1  # of Zstandard: 3 takes a third longer for 1 % less
DIGEST = 32  # bytes
_ZSTD = b"\x28\xb5\x2f\xfd"  # first bytes of a frame (RFC 8878, 3.1.1)


def digest_of(body: bytes) -> bytes:
    """BLAKE2b, 32 bytes: a collision cannot be made, so the page of another site cannot be
    replaced."""
    return hashlib.blake2b(body, digest_size=DIGEST).digest()


class Packer:
    """Compresses bodies; used by one thread."""

    def __init__(self) -> None:
        self._compressor = ZstdCompressor(level=LEVEL)

    def pack(self, body: bytes, coded: CodedBody | None = None) -> bytes:
        """``coded``: the body as it was sent."""
        if coded is not None:
            return b"%b:%b" % (coded.coding.encode(), coded.data)
        return self._compressor.compress(body, mode=ZstdCompressor.FLUSH_FRAME)


def unpack(packed: bytes, size: int) -> bytes:
    """The body of ``size`` bytes. Raises PageDamaged."""
    try:
        if packed.startswith(_ZSTD):
            body = ZstdDecompressor().decompress(packed, size + 1)
        else:
            coding, colon, data = packed.partition(b":")
            if not colon:
                raise BadEncoding("they have no known form")
            body = decode(data, coding.decode("latin-1"), size, "its data")
    except (ZstdError, BadEncoding, BodyTooLarge) as error:
        raise PageDamaged(f"a kept page cannot be decompressed: {error}") from None
    if len(body) != size:
        raise PageDamaged(f"a kept page has {len(body)} bytes, where {size} were stored")
    return body


# Headers of a stored page that do not describe its body any more, or were masked.
LEFT_OUT = frozenset({"set-cookie", "set-cookie2", "content-encoding", "transfer-encoding"})
# Headers that a 304 does not change: RFC 9111, 3.2.
OF_BODY = frozenset({"content-encoding", "content-length", "content-range", "content-type"})


def response_of(page: StoredPage, request: Request, body: bytes) -> Response:
    """The response to ``request``, with the body of the page."""
    headers = [
        (name, value)
        for name, value in page.headers.get("received", ())
        if name.lower() not in LEFT_OUT and MASK not in value
    ]
    kind = RenderedResponse if page.headers.get("rendered") else Response
    made = kind(page.url, page.status, headers, body, request, address=page.address)
    made.stored = page
    return made


def renewed(page: StoredPage, request: Request, body: bytes, answer: Response) -> Response:
    """The response after a 304, with the headers that it brought."""
    made = response_of(page, request, body)
    new = [(n, v) for n, v in answer.headers.items() if n.lower() not in OF_BODY]
    names = {name.lower() for name, _ in new}
    old = [(n, v) for n, v in made.headers.items() if n.lower() not in names]
    renewed = Response(
        made.url,
        made.status,
        [*old, *new],
        body,
        request,
        redirects=answer.redirects,
        elapsed=answer.elapsed,
        address=answer.address,
    )
    renewed.sent, renewed.robots = answer.sent, answer.robots
    renewed.not_modified = renewed.unchanged = True
    return renewed


def tags_of(etag: str) -> str:
    """Tags for If-None-Match: the tag, and the tag before the server's compression suffix: it may
    compare with either."""
    weak, tag = ("W/", etag[2:]) if etag.startswith("W/") else ("", etag)
    if len(tag) < 2 or not tag.startswith('"') or not tag.endswith('"'):
        return etag  # not as it should be, but that server's own
    for suffix in ("--gzip", "-gzip", ";gzip", ":gzip", "-br", ";br", "-zstd", "-df"):
        if tag.endswith(suffix + '"'):
            return f'{etag}, {weak}{tag[: -len(suffix) - 1]}"'
    return etag
