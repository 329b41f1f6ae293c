"""BodyText: the text of a large body, read piece by piece."""

from __future__ import annotations

import zlib
from codecs import getincrementaldecoder
from collections.abc import Iterator

from crawlframe.charsets.encoding import encoding_of
from crawlframe.errors import BodyTooLarge
from crawlframe.response.response import Response

PIECE = 64 << 10  # bytes
FIRST_PIECE = 1 << 10  # bytes of a member of a gzip file
MAX_UNPACKED = 1 << 30  # bytes of a file that was packed; a body has the limit of its request
_GZIP = b"\x1f\x8b"


class BodyText:
    """The text of a response in pieces, in bounded memory. A body that is a gzip file is unpacked
    on the way. The encoding is the response's; invalid bytes become U+FFFD.

    ``problem``: after the last piece, the damage of the gzip file, "" if none. Raises BodyTooLarge
    above 1 GiB."""

    def __init__(self, response: Response) -> None:
        self.problem = ""
        self._response = response
        self._packed = response.body.startswith(_GZIP)

    def __iter__(self) -> Iterator[str]:
        pieces = self._unpacked() if self._packed else self._as_it_is()
        first = next(pieces, b"")
        if self._packed:
            content_type = self._response.headers.get("Content-Type")
            encoding = encoding_of(first, content_type, "xml", self._response.url)
        else:
            encoding = self._response.encoding
        decoder = getincrementaldecoder(encoding)("replace")
        yield decoder.decode(first).removeprefix("\ufeff")
        for piece in pieces:
            yield decoder.decode(piece)
        yield decoder.decode(b"", final=True)

    def _as_it_is(self) -> Iterator[bytes]:
        body = self._response.body
        for start in range(0, len(body), PIECE):
            yield body[start : start + PIECE]

    def _unpacked(self) -> Iterator[bytes]:
        """Members of a gzip file, one after another (RFC 1952, 2.2)."""
        body, start, size = self._response.body, 0, 0
        while body.startswith(_GZIP, start):
            member = zlib.decompressobj(zlib.MAX_WBITS | 16)
            length = FIRST_PIECE  # many members may be tiny, and the rest of a piece is copied
            while not member.eof:
                packed = member.unconsumed_tail
                if not packed:
                    packed = body[start : start + length]
                    start += len(packed)
                    length = PIECE
                    if not packed:
                        self.problem = "the gzip file is cut off"
                        return
                try:
                    piece = member.decompress(packed, PIECE)
                except zlib.error as error:
                    self.problem = f"the gzip file is damaged: {error}"
                    return
                size += len(piece)
                if size > MAX_UNPACKED:
                    raise BodyTooLarge(
                        f"{self._response.url} has more than {MAX_UNPACKED:,} bytes unpacked"
                    )
                if piece:
                    yield piece
            start -= len(member.unused_data)
