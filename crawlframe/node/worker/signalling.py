"""Signalling: what a fetch says about its host, for the frontier."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

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
    TlsError,
    TooManyRedirects,
)
from crawlframe.fetch.redirects import Challenged, Redirected
from crawlframe.frontier.records import (
    ANSWERED,
    BLOCKED,
    NO_SIGNAL,
    REFUSED,
    UNREACHABLE,
    Signal,
)
from crawlframe.node.worker.backoff import retry_after
from crawlframe.node.worker.crawl import TaskCrawl
from crawlframe.request import Request
from crawlframe.response import Response
from crawlframe.spider import Spider

REFUSALS = 20  # times that a host may refuse a request, which then ends as an error
REFUSING = (429, 503)  # statuses that mean "later" for the whole host (RFC 6585 4, RFC 9110 15.6.4)
NO_MEASURE = -1  # for an answer whose time says nothing

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
    if isinstance(error, _UNREACHABLE):
        return Signal(UNREACHABLE)
    return Signal(ANSWERED, NO_MEASURE) if isinstance(error, _ANSWERED) else NO_SIGNAL


def signal_of_response(response: Response, seconds: float, blocked: bool) -> Signal:
    """What a response says that took so long; ``blocked``: its spider calls it a block."""
    if response.status in REFUSING:
        asked = retry_after(response)
        return Signal(REFUSED, NO_MEASURE if asked is None else asked)
    if blocked:
        return Signal(BLOCKED)
    return Signal(ANSWERED, NO_MEASURE if response.status >= 500 else round(1000 * seconds))


class Judge:
    """What the downloads of one request say about its host; the last one counts. ``signal`` is
    NO_SIGNAL when nothing was downloaded. ``marked`` awaits authors' code."""

    def __init__(
        self, crawl: TaskCrawl, marked: Callable[[Awaitable[bool]], Awaitable[bool]]
    ) -> None:
        self.signal = NO_SIGNAL
        self._crawl = crawl
        self._marked = marked
        self._failure: Exception | None = None

    async def of(
        self, request: Request, download: Awaitable[Response], clock: Callable[[], float]
    ) -> Response:
        """The response of the download. Raises what it raises, and Blocked for a page that the
        spider's own method calls a block."""
        self.signal, self._failure = NO_SIGNAL, None
        began = clock()
        try:
            response = await download
        except (Challenged, Redirected):
            self.signal = Signal(ANSWERED, round(1000 * (clock() - began)))
            raise
        except FetchError as error:
            self.signal = signal_of_error(error)
            raise
        seconds = clock() - began
        own = getattr(self._crawl.spider.is_blocked, "__func__", None) is not Spider.is_blocked
        if own:
            blocked = await self._ask(response)
        else:  # what the spider handles is no block
            blocked = self._crawl.spider.is_blocked(response)
            blocked = blocked and not self._crawl.handles(request, response.status)
        self.signal = signal_of_response(response, seconds, blocked)
        if own and blocked and self.signal.kind == BLOCKED:
            block = Blocked(f"{response.url} ({response.status}) is a block, says is_blocked")
            block.response = response
            raise block
        return response

    async def _ask(self, response: Response) -> bool:
        async def ask() -> bool:
            return bool(self._crawl.spider.is_blocked(response))

        try:
            return await self._marked(ask())
        except Exception as error:
            self._failure = error
            return False

    def check(self) -> None:
        """Raises JudgementFailed if the spider's own method has failed."""
        if self._failure is not None:
            raise JudgementFailed(self._failure)
