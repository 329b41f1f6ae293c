"""FetchLimits: the caps on one fetch."""

from __future__ import annotations

from typing import NamedTuple


class FetchLimits(NamedTuple):
    """Caps on one fetch; times in seconds; ``timeout`` includes the redirects that the
    fetch follows."""

    timeout: float = 30.0
    max_body: int = 32 << 20  # bytes, as sent and after decompression
    max_redirects: int = 10
    connect: float = 15.0  # to open one connection, including the TLS handshake
    stall: float = 60.0  # without progress; shorter than a long ``timeout``
    follow: bool = True  # redirects; if False, the redirecting response is returned
