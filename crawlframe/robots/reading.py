"""Reading a robots.txt from its server: redirects are followed, and failures are a result too."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable
from email.utils import parsedate_to_datetime
from typing import NamedTuple, Protocol

from multidict import CIMultiDictProxy

from crawlframe.base.urls import escaped, join
from crawlframe.errors import BadUrl, FetchError, PrivateAddress, ProxyFailed
from crawlframe.robots.rules import MAX_BYTES

MAX_HOPS = 5  # redirects that are followed; RFC 9309, 2.3.1.2, asks for at least as many
MAX_FILE = 5 << 20  # bytes, above which a file is not read at all
PATH = "/robots.txt"
REDIRECTS = (301, 302, 303, 307, 308)

_MAX_AGE = re.compile(r"(?:^|,)\s*max-age\s*=\s*\"?(\d{1,10})", re.I)
_NO_CACHE = re.compile(r"(?:^|,)\s*(?:no-cache|no-store)\b", re.I)


class RobotsAnswer(Protocol):
    """A server's answer, such as a Response."""

    status: int
    headers: CIMultiDictProxy[str]
    body: bytes


Transfer = Callable[[str], Awaitable[RobotsAnswer]]


class Fetched(NamedTuple):
    """The result of reading a robots.txt. ``status`` is None if no server answered; ``reason``, a
    word, and ``detail`` say then why, and also if the answer cannot be used. ``lost``: the
    redirects lead nowhere. ``max_age`` and ``retry_after`` are seconds that the server names."""

    status: int | None = None
    body: bytes = b""
    content_type: str = ""
    max_age: float | None = None
    retry_after: float = 0.0
    hops: int = 0
    lost: bool = False
    reason: str = ""
    detail: str = ""


class RobotsMoved(NamedTuple):
    """The file is at another URL."""

    status: int | None
    url: str


async def read(origin: str, transfer: Transfer, path: str = PATH) -> Fetched:
    """Reads the robots.txt of an origin, or the file of another path. Raises as ``ask`` does."""
    url, hops = origin + path, 0
    while isinstance(got := await ask(url, hops, transfer), RobotsMoved):
        url, hops = got.url, hops + 1
    return got


async def ask(url: str, hops: int, transfer: Transfer) -> Fetched | RobotsMoved:
    """A transfer of a file, after so many redirects. ``transfer`` fetches one URL without following
    redirects.

    Raises PrivateAddress and BadUrl for the first URL: no request of its origin can be sent,
    whatever its robots.txt says; and ProxyFailed, which says nothing of the origin."""
    try:
        response = await transfer(url)
    except (PrivateAddress, BadUrl) as error:
        if not hops:
            raise
        return Fetched(hops=hops, lost=True, detail=f"it redirects to {url}: {error}")
    except ProxyFailed:
        raise
    except FetchError as error:
        return Fetched(hops=hops, reason=error.reason, detail=str(error))
    if response.status not in REDIRECTS:
        return _answered(response, hops)
    location = response.headers.get("Location", "").strip(" \t")
    target = join(url, escaped(location)) if location else None
    if target is None or hops == MAX_HOPS:
        why = f"more than {MAX_HOPS} redirects" if target else "it redirects nowhere"
        return Fetched(response.status, hops=hops, lost=True, detail=f"{why}, at {url}")
    return RobotsMoved(response.status, target)


def _answered(response: RobotsAnswer, hops: int) -> Fetched:
    headers = response.headers
    return Fetched(
        response.status,
        response.body[: MAX_BYTES + 1],
        headers.get("Content-Type", ""),
        _max_age(",".join(headers.getall("Cache-Control", []))),
        _retry_after(headers.get("Retry-After", "").strip()),
        hops,
    )


def _max_age(control: str) -> float | None:
    """The seconds for which the answer may be kept (RFC 9111, 5.2.2); None if it does not say."""
    if _NO_CACHE.search(control):
        return 0.0
    age = _MAX_AGE.search(control)
    return float(age[1]) if age else None


def _retry_after(value: str) -> float:
    """The seconds to wait (RFC 9110, 10.2.3); 0 if it does not say."""
    try:
        if value.isdigit():
            return float(value)
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time()) if value else 0.0
    except (ValueError, TypeError, OverflowError):
        return 0.0
