"""PageKey: the key of a kept page: its request, as the server sees it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import lru_cache

from crawlframe.request.options import NO_OPTIONS
from crawlframe.request.request import Request
from crawlframe.spider.settings import SpiderSettings

KEY = 16  # bytes
# Headers of a request that do not change a server's response.
IGNORED = frozenset({"connection", "referer"})


# With one of these, a request gets a part of a page, or none.
PARTIAL = frozenset(
    {"range", "if-range", "if-match", "if-none-match", "if-modified-since", "if-unmodified-since"}
)


def is_whole(request: Request, settings: SpiderSettings) -> bool:
    """Whether a request reads a whole page, so that its page may serve others."""
    if request.method != "GET" or request.body is not None:
        return False
    return not any(
        n.lower() in PARTIAL for given in (request.headers, settings.headers) for n in given
    )


def key_of(request: Request, settings: SpiderSettings, owner: str, downloader: str) -> bytes:
    """Equal for requests of any task that bring the same page: by method, URL and body, by the
    headers and cookies that they send of their own, and by the downloader. ``owner``: whose page it
    is, if it is not the same for all."""
    headers = tuple(settings.headers.items()) if settings.headers else ()
    of_task = (
        *(downloader, settings.user_agent or "", request.options.session or "", owner),
        *(settings.proxy or "", str(settings.max_redirects), str(settings.handle_statuses)),
        *settings.browser.block,
    )
    digest = hashlib.blake2b(_of_task(of_task, headers), digest_size=KEY)
    digest.update(request.fingerprint())
    if request.options != NO_OPTIONS:
        own = request.options
        digest.update(repr((own.redirects, own.handle, own.proxy)).encode())
    if request.headers:
        digest.update(_listed((name.lower(), value) for name, value in request.headers.items()))
    if request.cookies:
        digest.update(b"\2" + _listed(request.cookies.items()))
    return digest.digest()


@lru_cache(maxsize=1024)
def _of_task(parts: tuple[str, ...], headers: tuple[tuple[str, str], ...]) -> bytes:
    return (
        "".join(f"\0{part}" for part in parts).encode()
        + _listed((name.lower(), value) for name, value in headers)
        + b"\2"
    )


def _listed(pairs: Iterable[tuple[str, str]]) -> bytes:
    kept = sorted((name, value) for name, value in pairs if name not in IGNORED)
    return "".join(f"\0{name}\1{value}" for name, value in kept).encode("utf-8", "surrogatepass")
