"""PageKey: what a kept page is found by again: the request, as the server sees it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from crawlframe.request import Request
from crawlframe.spider_settings import SpiderSettings

KEY = 16  # bytes
# Headers of a request by which no server chooses what it sends.
IGNORED = frozenset({"connection", "referer", "if-none-match", "if-modified-since", "range"})


def key_of(request: Request, settings: SpiderSettings, owner: str, downloader: str) -> bytes:
    """Equal for requests of any task that bring the same page: by method, URL and body, by the
    headers and cookies that they send of their own, and by the downloader. ``owner``: whose page it
    is, if it is not the same for all."""
    digest = hashlib.blake2b(request.fingerprint(), digest_size=KEY)
    parts = [downloader, settings.user_agent or "", request.options.session or "", owner]
    digest.update("".join(f"\0{part}" for part in parts).encode())
    for headers in (settings.headers, request.headers):
        digest.update(_listed({name.lower(): value for name, value in headers.items()}))
    digest.update(_listed(request.cookies))
    return digest.digest()


def _listed(pairs: Mapping[str, str]) -> bytes:
    kept = sorted((name, value) for name, value in pairs.items() if name not in IGNORED)
    return "".join(f"\0{name}\1{value}" for name, value in kept).encode("utf-8", "surrogatepass")
