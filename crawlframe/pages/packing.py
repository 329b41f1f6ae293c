"""Packing: bodies as they are stored, by the digest of their content, compressed by Zstandard."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache

from crawlframe.errors import PageDamaged
from crawlframe.zstd import ZstdCompressor, ZstdDecompressor, ZstdDict, ZstdError, train_dict

LEVEL = 1  # of Zstandard: 3 takes a third longer for 1 % less
DIGEST = 32  # bytes
MAX_DICTIONARY = 16 << 10  # bytes of a dictionary; a larger one costs more time with each page
MIN_SAMPLES = 20  # pages from which a dictionary is made


def digest_of(body: bytes) -> bytes:
    """BLAKE2b, 32 bytes: a collision cannot be made, so nobody can replace the page of another
    site."""
    return hashlib.blake2b(body, digest_size=DIGEST).digest()


class Packer:
    """Compresses bodies; used by one thread."""

    def __init__(self) -> None:
        self._plain = ZstdCompressor(level=LEVEL)
        self._with: dict[int, ZstdCompressor] = {}

    def pack(self, body: bytes, dictionary: tuple[int, bytes] | None = None) -> bytes:
        """``dictionary``: its number and content."""
        if dictionary is None:
            return self._plain.compress(body, mode=ZstdCompressor.FLUSH_FRAME)
        number, content = dictionary
        if number not in self._with:
            if len(self._with) >= 100:
                self._with.clear()
            self._with[number] = ZstdCompressor(level=LEVEL, zstd_dict=_loaded(content))
        return self._with[number].compress(body, mode=ZstdCompressor.FLUSH_FRAME)


def unpack(packed: bytes, size: int, dictionary: bytes = b"") -> bytes:
    """The body of ``size`` bytes. Raises PageDamaged."""
    reader = ZstdDecompressor(zstd_dict=_loaded(dictionary) if dictionary else None)
    try:
        body = reader.decompress(packed, size + 1)
    except ZstdError as error:
        raise PageDamaged(f"a kept page cannot be decompressed: {error}") from None
    if len(body) != size:
        raise PageDamaged(f"a kept page has {len(body)} bytes, where {size} were stored")
    return body


def train(samples: Sequence[bytes]) -> bytes:
    """A dictionary for pages like these; b"" if they do not suffice, or if it would save too
    little. It is judged by a third of the samples, with which it was not made."""
    made_of, judged_by = [s for i, s in enumerate(samples) if i % 3], samples[::3]
    if len(samples) < MIN_SAMPLES:
        return b""
    try:
        content = train_dict(made_of, MAX_DICTIONARY).dict_content
    except (ZstdError, ValueError):  # too little in common, or all of them empty
        return b""
    packer = Packer()
    without = sum(len(packer.pack(sample)) for sample in judged_by)
    better = sum(len(packer.pack(sample, (0, content))) for sample in judged_by)
    return content if better <= MUCH_LESS * without else b""


MUCH_LESS = 0.75  # of the size without a dictionary, for one that pays


@lru_cache(maxsize=64)
def _loaded(content: bytes) -> ZstdDict:
    return ZstdDict(content)
