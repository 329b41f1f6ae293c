"""FetchLimits: what one fetch may cost."""

from __future__ import annotations

from typing import NamedTuple


class FetchLimits(NamedTuple):
    """Caps of one fetch; times in seconds, redirects included in ``timeout``."""

    timeout: float = 30.0
    max_body: int = 32 << 20  # bytes, as sent and also after decompression
    max_redirects: int = 10
    connect: float = 15.0  # for one connection, TLS handshake included
    stall: float = 60.0  # without progress; shorter than a long ``timeout``
    follow: bool = True  # redirects; else the answer that redirects is the response
