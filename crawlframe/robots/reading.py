"""Reading a robots.txt from its server: redirects are followed, and failures are a result too; and
the meaning of its status (RFC 9309, 2.3.1 and 2.4)."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable
from email.utils import parsedate_to_datetime
from typing import NamedTuple, Protocol

from multidict import CIMultiDictProxy

from crawlframe.base.urls import escaped, join
from crawlframe.errors import BadUrl, FetchError, PrivateAddress, ProxyFailed
from crawlframe.robots.rules import MAX_BYTES, Rules, read_text
from crawlframe.robots.state import SILENT, RobotsState, Status

MAX_HOPS = 5  # redirects that are followed; RFC 9309, 2.3.1.2, asks for at least as many
MAX_FILE = 5 << 20  # bytes, above which a file is not read at all
PATH = "/robots.txt"
REDIRECTS = (301, 302, 303, 307, 308)

_MAX_AGE = re.compile(r"(?:^|,)\s*max-age\s*=\s*\"?(\d{1,10})", re.I)
_NO_CACHE = re.compile(r"(?:^|,)\s*(?:no-cache|no-store)\b", re.I)

HOUR, DAY = 3600.0, 86_400.0  # seconds
MIN_AGE, MAX_AGE = HOUR, DAY  # for which a file counts; the server's max-age within these
FIRST_WAIT, LONGEST_WAIT = 60.0, HOUR  # between two attempts to read one that is unreachable
RETRY_WAIT = 2.0  # the same, where nothing answered: requests fail of that, and use up their tries
MAX_OUTAGE = 30 * DAY  # after which one that was unreachable all the time counts as missing
READ = (Status.RULES, Status.NO_RULES, Status.NOT_TEXT)
TOO_MANY = 429


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
        headers = response.headers
        return Fetched(
            response.status,
            response.body[: MAX_BYTES + 1],
            headers.get("Content-Type", ""),
            _max_age(",".join(headers.getall("Cache-Control", []))),
            _retry_after(headers.get("Retry-After", "").strip()),
            hops,
        )
    location = response.headers.get("Location", "").strip(" \t")
    target = join(url, escaped(location)) if location else None
    if target is None or hops == MAX_HOPS:
        why = f"more than {MAX_HOPS} redirects" if target else "it redirects nowhere"
        return Fetched(response.status, hops=hops, lost=True, detail=f"{why}, at {url}")
    return RobotsMoved(response.status, target)


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


def judge(
    before: RobotsState, got: Fetched, now: float, token: str, max_delay: float
) -> RobotsState:
    """Returns the state after one attempt to read it. ``now``: seconds since the epoch, by the
    clock of ``before``. ``token``: of the crawler that read it; ``max_delay``: seconds of a
    Crawl-delay that are obeyed at most."""
    if got.lost:  # RFC 9309, 2.3.1.2: may count as unavailable
        return _read(got, now, Status.NO_RULES, note=got.detail)
    if got.status is None or got.status >= 500 or got.status == TOO_MANY:
        return _unreachable(before, got, now)
    if not 200 <= got.status < 300:  # 4xx, 401 and 403 too: 2.3.1.3
        return _read(got, now, Status.NO_RULES, note=f"the server answered {got.status}")
    text, problem, cut = read_text(got.body, got.content_type)
    if problem:
        return _read(got, now, Status.NOT_TEXT, note=f"{problem}; everything is allowed")
    if not text.strip():
        return _read(got, now, Status.NO_RULES, note="it is empty")
    delay = Rules(text=text, token=token).crawl_delay
    notes = []
    if cut:
        notes.append(f"only its first {MAX_BYTES:,} bytes are read")
    if delay > max_delay:
        notes.append(f"it asks for {delay:,.0f} s between two requests; {max_delay:g} s are kept")
    return _read(got, now, Status.RULES, text, delay, "; ".join(notes))


def _read(
    got: Fetched, now: float, status: Status, text: str = "", delay: float = 0.0, note: str = ""
) -> RobotsState:
    age = MAX_AGE if got.max_age is None else min(MAX_AGE, max(MIN_AGE, got.max_age))
    return RobotsState(status, got.status, text, now, now + age, crawl_delay=delay, note=note)


def _unreachable(before: RobotsState, got: Fetched, now: float) -> RobotsState:
    """An earlier copy continues to count, however old. Without one, no page may be fetched until it
    can be read, or MAX_OUTAGE is over."""
    since = before.unreachable_since or now
    first = RETRY_WAIT if got.status is None and got.reason in SILENT else FIRST_WAIT
    wait = min(LONGEST_WAIT, now - since + first)  # doubles: 60 s, 120 s, 240 s
    wait = max(wait, min(got.retry_after, MAX_AGE))
    reason = got.reason or f"http_{got.status}"
    why = got.detail or f"the server answered {got.status}"
    if reason == "too_large":
        why = f"it is larger than {MAX_FILE:,} bytes"
    failed = before._replace(
        http_status=got.status,
        unreachable_since=since,
        next_try=now + wait,
        reason=reason,
        note=why,
    )
    if before.status in READ:
        return failed._replace(known_until=now + wait, note=f"{why}; the earlier file still counts")
    if now - since >= MAX_OUTAGE:
        return failed._replace(
            status=Status.GIVEN_UP,
            known_until=now + wait,
            note=f"{why}; unreachable for {MAX_OUTAGE / DAY:.0f} days: everything is allowed",
        )
    return failed._replace(status=Status.UNREACHABLE, known_until=0.0)
