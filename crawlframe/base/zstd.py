"""Zstandard of the standard library, or its backport for Python before 3.14."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 14):
    from compression.zstd import (
        DecompressionParameter,
        ZstdCompressor,
        ZstdDecompressor,
        ZstdDict,
        ZstdError,
    )
else:
    from backports.zstd import (
        DecompressionParameter,
        ZstdCompressor,
        ZstdDecompressor,
        ZstdDict,
        ZstdError,
    )

__all__ = [
    "DecompressionParameter",
    "ZstdCompressor",
    "ZstdDecompressor",
    "ZstdDict",
    "ZstdError",
]
