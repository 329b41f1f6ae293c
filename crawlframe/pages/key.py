"""PageKey: what a kept page is found by again: the request, as the server sees it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import lru_cache

from crawlframe.request import Request
from crawlframe.spider_settings import SpiderSettings

KEY = 16  # bytes
# Headers of a request by which no server chooses what it sends.
IGNORED = frozenset({"connection", "referer", "if-none-match", "if-modified-since", "range"})


def key_of(request: Request, settings: SpiderSettings, owner: str, downloader: str) -> bytes:
    """Equal for requests of any task that bring the same page: by method, URL and body, by the
    headers and cookies that they send of their own, and by the downloader. ``owner``: whose page it
    is, if it is not the same for all."""
    own = tuple(settings.headers.items()) if settings.headers else ()
    session, agent = request.options.session or "", settings.user_agent or ""
    digest = hashlib.blake2b(_of_task(downloader, agent, session, owner, own), digest_size=KEY)
    digest.update(request.fingerprint())
    if request.headers:
        digest.update(_listed((name.lower(), value) for name, value in request.headers.items()))
    if request.cookies:
        digest.update(b"\2" + _listed(request.cookies.items()))
    return digest.digest()


@lru_cache(maxsize=1024)
def _of_task(
    downloader: str, agent: str, session: str, owner: str, headers: tuple[tuple[str, str], ...]
) -> bytes:
    parts = "".join(f"\0{part}" for part in (downloader, agent, session, owner))
    return parts.encode() + _listed((name.lower(), value) for name, value in headers) + b"\2"


def _listed(pairs: Iterable[tuple[str, str]]) -> bytes:
    kept = sorted((name, value) for name, value in pairs if name not in IGNORED)
    return "".join(f"\0{name}\1{value}" for name, value in kept).encode("utf-8", "surrogatepass")
