"""Signals: reports of a fetch about its host to the frontier, by way of the master.

Rate headers say how many more requests an API allows, and until when. They are read in the forms in
use: ``RateLimit`` of the IETF draft (``"default";r=50;t=30``, and ``limit=100, remaining=50,
reset=30`` before), ``RateLimit-Remaining`` and ``-Reset``, and ``X-RateLimit-Remaining`` and
``-Reset``, whose reset is in seconds or a time."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import NamedTuple

from multidict import istr

from crawlframe.errors import (
    ActionFailed,
    BadEncoding,
    BadRedirect,
    BadResponse,
    Blocked,
    BodyTooLarge,
    ConnectError,
    ConnectionLost,
    DnsError,
    DownloadRefused,
    FetchError,
    FetchTimeout,
    PageCrashed,
    ProxyAuth,
    ProxyFailed,
    ProxyUnreaching,
    TlsError,
    TooManyRedirects,
)
from crawlframe.fetch.journey.context import SendTime
from crawlframe.fetch.journey.trail import Challenged, Redirected
from crawlframe.frontier.client.records import (
    ANSWERED,
    BLOCKED,
    FAULT,
    LOGIN,
    NO_SIGNAL,
    PROXY_FAILED,
    QUOTA,
    REFUSED,
    UNREACHABLE,
    UNSENT,
    Claimed,
    Signal,
)
from crawlframe.node.worker.crawl.callbacks import Callbacks
from crawlframe.node.worker.crawl.stage import ClaimedFetch, CrawlFetch, F, Next
from crawlframe.node.worker.verdict.backoff import retry_after
from crawlframe.response.response import Response

REFUSALS = 20  # times that a host may refuse a request, which then ends as an error
FORBIDDEN = 403  # answer of some APIs to requests beyond their quota
REFUSING = (429, 503)  # statuses that mean "later" for the whole host (RFC 6585 4, RFC 9110 15.6.4)
NEVER = -math.inf  # for a request that does not leave
NO_MEASURE = -1  # for an answer whose time says nothing

# Signals of a fetch through a proxy of the pool after which another proxy is tried, and how often.
PROXY_RETRIES = {PROXY_FAILED: REFUSALS, BLOCKED: REFUSALS, UNREACHABLE: 5}

_UNREACHABLE = (ConnectError, ConnectionLost, DnsError, FetchTimeout)
_ANSWERED = (
    *(ActionFailed, BadEncoding, BadRedirect, BadResponse, BodyTooLarge, DownloadRefused),
    *(PageCrashed, TlsError, TooManyRedirects),
)


MAX_SECONDS = 25 * 3600.0  # seconds: the quota of a day, and some; longer times are mistakes
MARGIN = 0.5  # seconds after a reset, which most servers round
EPOCH = 1_000_000_000  # numbers from here on are seconds since 1970, from 1000 times that on ms

_PAIRS = (
    ("RateLimit-Remaining", "RateLimit-Reset"),
    ("X-RateLimit-Remaining", "X-RateLimit-Reset"),
    ("X-Rate-Limit-Remaining", "X-Rate-Limit-Reset"),
)
_NAMES = (istr("RateLimit"), *(istr(remaining) for remaining, _ in _PAIRS))
_STRUCTURED = re.compile(r";\s*r=(\d{1,15})\b.*?;\s*t=(\d{1,15})\b")
_DRAFT = re.compile(r"\bremaining=(\d{1,15})\b.*?\breset=(\d{1,15})\b")


class Quota(NamedTuple):
    """``remaining`` requests may be sent within ``reset`` seconds."""

    remaining: int
    reset: float

    @property
    def gap(self) -> float:
        """Seconds until the next request, if the remaining requests are spread evenly."""
        return self.reset / (self.remaining + 1) if self.remaining else self.reset + MARGIN


@dataclass(frozen=True)
class FetchReports:
    """``fetched`` is called for each ended fetch, with its signal about the host; ``sent`` when a
    request with an earliest time to leave has left, so many seconds ago, or is not to leave.
    ``moves`` is called with the hosts of a request and of a redirect's target: whether the target
    waits for a claim of its own. ``clock`` returns seconds."""

    fetched: Callable[[Claimed, Signal], None] = lambda claimed, signal: None
    sent: Callable[[Claimed, float], None] = lambda claimed, ago: None
    moves: Callable[[str, str], bool] = lambda host, target: False
    clock: Callable[[], float] = time.perf_counter

    def send_time(self, claimed: Claimed) -> SendTime:
        """The time from which a claimed request may be sent."""
        if claimed.due is None:
            return SendTime(clock=self.clock)
        return SendTime(claimed.due, partial(self.sent, claimed, 0.0), self.clock)

    def unsent(self, fetch: ClaimedFetch) -> None:
        """Reports that nothing is sent for this claim: the delay of its host does not count."""
        delayed = fetch.claimed.due is not None
        if delayed:
            self.sent(fetch.claimed, NEVER)
        if delayed or fetch.crawl.settings.delay == "auto":
            # The worker's commit may overtake that report, which its master passes on.
            fetch.signal = fetch.outcome.fetch.signal = Signal(UNSENT)

    def end(self, fetch: ClaimedFetch, *, keep_slot: bool = False) -> None:
        """Reports the end of a fetch. ``keep_slot``: its slot of the host is freed later."""
        outcome = fetch.outcome
        outcome.fetch.signal, outcome.fetch.slot = fetch.signal, keep_slot
        if not keep_slot:
            self.fetched(fetch.claimed, fetch.signal)
        outcome.fetch.fetch_ms = round(fetch.send_time.elapsed() * 1000)


NO_REPORTS = FetchReports()


class JudgementFailed(Exception):
    """The spider's ``is_blocked`` raised ``error``."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


def signal_of_error(error: Exception) -> Signal:
    """The signal of an error of the downloader. Other errors, such as those raised by middlewares,
    have none."""
    if isinstance(error, ProxyAuth):
        return Signal(PROXY_FAILED, LOGIN)
    if isinstance(error, ProxyFailed):
        return Signal(PROXY_FAILED, 0 if isinstance(error, ProxyUnreaching) else FAULT)
    if isinstance(error, _UNREACHABLE):
        return Signal(UNREACHABLE)
    return Signal(ANSWERED, NO_MEASURE) if isinstance(error, _ANSWERED) else NO_SIGNAL


def signal_of_response(
    response: Response, seconds: float, blocked: bool, concurrency: int = 1
) -> Signal:
    """The signal of a response that took so long; ``blocked``: its spider calls it a block.
    ``concurrency``: so many requests may be in flight, for which no quota may be left."""
    quota = quota_of(response)
    spent = quota is not None and quota.remaining == 0 and response.status == FORBIDDEN
    if response.status in REFUSING or spent:
        asked = retry_after(response)
        if asked is None and quota is not None and quota.remaining == 0:
            asked = math.ceil(1000 * quota.reset)
        return Signal(REFUSED, NO_MEASURE if asked is None else asked)
    if blocked:
        return Signal(BLOCKED)
    if quota is not None and quota.remaining <= concurrency and quota.reset > 0:
        return Signal(QUOTA, math.ceil(1000 * quota.gap))
    return Signal(ANSWERED, NO_MEASURE if response.status >= 500 else round(1000 * seconds))


class ResponseClassifier:
    """The classifier of one worker. ``callbacks`` marks authors' code; None: it is marked."""

    def __init__(self, callbacks: Callbacks | None = None) -> None:
        self._callbacks = callbacks

    async def fetch(self, fetch: F, call_next: Next[F]) -> Response:
        """A stage: notes the signal of a download about its host; the last signal counts. Raises
        Blocked for a page that the spider's own method calls a block."""
        crawl, clock = fetch.crawl, fetch.send_time.elapsed
        fetch.signal, fetch.misjudged = NO_SIGNAL, None
        began = clock()
        try:
            response = await call_next(fetch)
        except (Challenged, Redirected):
            fetch.signal = Signal(ANSWERED, round(1000 * (clock() - began)))
            raise
        except FetchError as error:
            fetch.signal = signal_of_error(error)
            raise
        seconds = clock() - began
        own = crawl.judges_blocks
        if own:
            blocked = await self._ask(fetch, response)
        else:  # a page that the spider handles is no block
            blocked = crawl.spider.is_blocked(response)
            blocked = blocked and not crawl.handles(fetch.asked, response.status)
        fetch.signal = signal_of_response(response, seconds, blocked, crawl.settings.concurrency)
        if own and blocked and fetch.signal.kind == BLOCKED:
            block = Blocked(f"{response.url} ({response.status}) is a block, says is_blocked")
            block.response = response
            raise block
        return response

    async def _ask(self, fetch: CrawlFetch, response: Response) -> bool:
        spider = fetch.crawl.spider

        async def ask() -> bool:
            return bool(spider.is_blocked(response))

        asked: Awaitable[bool] = ask()
        if self._callbacks is not None:
            what = f"is_blocked of spider {fetch.crawl.spec.spider}"
            asked = self._callbacks.stepwise(asked, fetch.rid, what)
        try:
            return await asked
        except Exception as error:
            fetch.misjudged = error
            return False


def quota_of(response: Response) -> Quota | None:
    """The quota of a response; of several, the strictest. None if there is none that can be
    read."""
    if not any(map(response.headers.__contains__, _NAMES)):
        return None
    return max(_quotas(response), key=lambda quota: quota.gap, default=None)


def _quotas(response: Response) -> Iterator[Quota]:
    headers = response.headers
    for value in headers.getall("RateLimit", []):
        for part in value.split(",") if '"' in value else [value]:
            found = _STRUCTURED.search(part) or _DRAFT.search(part)
            if found is not None and int(found[2]) <= MAX_SECONDS:
                yield Quota(int(found[1]), float(found[2]))
    for remaining, reset in _PAIRS:
        if remaining not in headers or reset not in headers:
            continue
        left = headers[remaining].split(",")[0].strip()
        seconds = _seconds(headers[reset].partition(";")[0].strip())
        if left.isascii() and left.isdecimal() and 0 <= seconds <= MAX_SECONDS:
            yield Quota(int(left[:15]), seconds)


def _seconds(text: str) -> float:
    """Seconds until a reset; NaN if it cannot be read."""
    try:
        number = float(text)
    except ValueError:
        for read in (parsedate_to_datetime, datetime.fromisoformat):
            try:
                return max(0.0, read(text).timestamp() - time.time())
            except (TypeError, ValueError, OverflowError):
                continue
        return math.nan
    if number >= 1000 * EPOCH:
        number /= 1000
    return max(0.0, number - time.time()) if number >= EPOCH else number
