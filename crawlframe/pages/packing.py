"""Packing: bodies as they are stored, by the digest of their content, compressed by Zstandard."""

from __future__ import annotations

import hashlib

from crawlframe.base.zstd import ZstdCompressor, ZstdDecompressor, ZstdError
from crawlframe.errors import PageDamaged

LEVEL = 1  # of Zstandard: 3 takes a third longer for 1 % less
DIGEST = 32  # bytes


def digest_of(body: bytes) -> bytes:
    """BLAKE2b, 32 bytes: a collision cannot be made, so the page of another site cannot be
    replaced."""
    return hashlib.blake2b(body, digest_size=DIGEST).digest()


class Packer:
    """Compresses bodies; used by one thread."""

    def __init__(self) -> None:
        self._compressor = ZstdCompressor(level=LEVEL)

    def pack(self, body: bytes) -> bytes:
        return self._compressor.compress(body, mode=ZstdCompressor.FLUSH_FRAME)


def unpack(packed: bytes, size: int) -> bytes:
    """The body of ``size`` bytes. Raises PageDamaged."""
    try:
        body = ZstdDecompressor().decompress(packed, size + 1)
    except ZstdError as error:
        raise PageDamaged(f"a kept page cannot be decompressed: {error}") from None
    if len(body) != size:
        raise PageDamaged(f"a kept page has {len(body)} bytes, where {size} were stored")
    return body
