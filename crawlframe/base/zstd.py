"""Zstandard of the standard library, or its backport for Python before 3.14."""

import sys

if sys.version_info >= (3, 14):
    from compression.zstd import DecompressionParameter as DecompressionParameter
    from compression.zstd import ZstdCompressor as ZstdCompressor
    from compression.zstd import ZstdDecompressor as ZstdDecompressor
    from compression.zstd import ZstdDict as ZstdDict
    from compression.zstd import ZstdError as ZstdError
else:
    from backports.zstd import DecompressionParameter as DecompressionParameter
    from backports.zstd import ZstdCompressor as ZstdCompressor
    from backports.zstd import ZstdDecompressor as ZstdDecompressor
    from backports.zstd import ZstdDict as ZstdDict
    from backports.zstd import ZstdError as ZstdError
