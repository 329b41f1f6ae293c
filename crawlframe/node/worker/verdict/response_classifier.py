"""Signalling: what a fetch says about its host, for the frontier."""

from __future__ import annotations

import math
from collections.abc import Awaitable

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
    Signal,
)
from crawlframe.node.worker.crawl.callbacks import Callbacks
from crawlframe.node.worker.crawl.stage import CrawlFetch, F, Next
from crawlframe.node.worker.verdict.backoff import retry_after
from crawlframe.node.worker.verdict.rate_headers import quota_of
from crawlframe.response.response import Response

REFUSALS = 20  # times that a host may refuse a request, which then ends as an error
FORBIDDEN = 403  # how some APIs refuse what exceeds their quota
REFUSING = (429, 503)  # statuses that mean "later" for the whole host (RFC 6585 4, RFC 9110 15.6.4)
NO_MEASURE = -1  # for an answer whose time says nothing

# Signals of a fetch through a proxy of the pool after which another one is tried, and how often.
DETOURS = {PROXY_FAILED: REFUSALS, BLOCKED: REFUSALS, UNREACHABLE: 5}

_UNREACHABLE = (ConnectError, ConnectionLost, DnsError, FetchTimeout)
_ANSWERED = (
    *(ActionFailed, BadEncoding, BadRedirect, BadResponse, BodyTooLarge, DownloadRefused),
    *(PageCrashed, TlsError, TooManyRedirects),
)


class JudgementFailed(Exception):
    """The spider's ``is_blocked`` raised ``error``."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


def signal_of_error(error: Exception) -> Signal:
    """What an error of the downloader says. Others, such as those that middlewares raise, say
    nothing."""
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
    """What a response says that took so long; ``blocked``: its spider calls it a block.
    ``concurrency``: so many requests may be on their way, for which no quota may be left."""
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


class Judge:
    """Of one worker. ``callbacks`` marks authors' code that runs; None: it is marked already."""

    def __init__(self, callbacks: Callbacks | None = None) -> None:
        self._callbacks = callbacks

    async def fetch(self, fetch: F, call_next: Next[F]) -> Response:
        """A stage: notes what a download says about its host; the last one counts. Raises Blocked
        for a page that the spider's own method calls a block."""
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
        else:  # what the spider handles is no block
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
