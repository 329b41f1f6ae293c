"""Every exception of the engine. An exception without a message shows its docstring."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any, Self

MAX_AFTER = 366 * 24 * 3600  # seconds that another try may be put off


class CrawlframeError(Exception):
    """Something in Crawlframe went wrong."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())


class ConfigError(CrawlframeError):
    """A setting is wrong. Raised at start-up; the message names the setting and how to fix
    it."""


class TablesMissing(ConfigError):
    """The database lacks tables of this version. Raised at start-up; a supervisor recognises it by
    the exit code."""

    exit_code = 4


class SpiderError(CrawlframeError):
    """A spider breaks the contract: bad settings, unknown callback, an item or request that cannot
    be stored. The message names the part of the spider to change."""


class UnknownSpider(SpiderError):
    """No loaded spider has this name."""


class UnknownCallback(SpiderError):
    """The spider has no method of this name."""


class FieldError(CrawlframeError):
    """A given ``field`` has a value that it cannot have."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class ArgumentError(CrawlframeError):
    """A spider argument is unknown, missing or of the wrong type."""


class BadRequest(CrawlframeError):
    """A request cannot be made: its URL, method, body or other field is wrong."""


class MissingCode(BadRequest):
    """The code that a queued request needs is missing on this node; another version may have it."""


class FrontierError(CrawlframeError):
    """Redis refused or failed a verb of the frontier."""


class Fenced(FrontierError):
    """This generation was declared dead, and its requests belong to others. Start a new one."""


class EraChanged(Fenced):
    """Redis lost data and was, or is being, filled again from the database. The requests that this
    process holds belong to others now."""


class DropItem(CrawlframeError):
    """Raised by a pipeline: the item is not stored.

    ``reason`` is a short, fixed text; the task shows how many items were dropped for it."""

    def __init__(self, reason: str = "no reason given") -> None:
        super().__init__(str(reason))
        self.reason = str(reason)


class PipelineFailed(DropItem):
    """A pipeline raised the cause of this: its item is left out, and the page ends as an error."""


class UnfitItem(DropItem):
    """The item does not fit the class of the items."""


class CloseTask(CrawlframeError):
    """Raised by a callback or a pipeline: the task ends early, as finished.

    Requests in flight end, the rest is cancelled. ``reason`` is shown with the outcome; 200
    characters of it are kept."""

    def __init__(self, reason: str) -> None:
        super().__init__(str(reason))
        self.reason = str(reason)


class NotJson(CrawlframeError, ValueError):
    """The body of a response is not JSON."""


class PageClosed(CrawlframeError):
    """The page of a browser is used where there is none: its response was not rendered, its request
    did not keep it, or its callback has ended."""


class UnparsablePage(CrawlframeError):
    """Parsing the page would take too long, so it was not started.

    ``reason`` is the short stable word stored in the ledger."""

    reason = "too_complex"


class TooComplex(UnparsablePage):
    """The page has too many tags, attributes, names or unclosed elements for a parser."""


class TooDeep(UnparsablePage):
    """The elements of the page, or the parts of its JSON, are nested too deeply for a parser."""

    reason = "too_deep"


class MiddlewareError(SpiderError):
    """A middleware breaks its contract: it changes the callback of a request, or does not return a
    Response."""


class HostChanged(MiddlewareError):
    """A middleware sends a request to another host, which would bypass that host's limits. Yield a
    Request for it instead."""


class ImageRefused(CrawlframeError):
    """A file is no image that can be read, or is too large to be decoded."""


class StoreError(CrawlframeError):
    """The file store cannot be used."""


class FileGone(StoreError):
    """A file is not in the store any more. A page whose callback ends with it, for a file of its
    own, is fetched again."""

    def __init__(self, message: str, sha256: str = "") -> None:
        super().__init__(message)
        self.sha256 = sha256


class PageDamaged(CrawlframeError):
    """A kept page cannot be read."""


class ArchiveError(StoreError):
    """The archive of kept pages cannot be used."""


class RecordGone(ArchiveError):
    """The segment of a kept page is not in the archive any more."""


class RecordElsewhere(ArchiveError):
    """The segment of a kept page is on another node until it is uploaded."""


class CacheUnusable(CrawlframeError):
    """The development cache cannot be read or written."""


# -- how fetches end ------------------------------------------------------------------------------


class FetchError(CrawlframeError):
    """A fetch ended without a usable response.

    ``reason`` is the short stable word stored in the ledger; ``retryable`` is true if
    another attempt may help. A middleware may raise its own, with a
    reason of its own."""

    reason = "fetch"
    retryable = True
    after = 0.0  # seconds from now, before which it is not tried again
    request: Any = None  # the Request, for an errback
    response: Any = None  # the Response, where there was one
    sent: Any = None  # the method, the URL and the headers that were sent last, if any were
    of_page: bool = False  # of the page that a callback holds, after its fetch
    picture: bytes = b""  # JPEG of the page in the browser


class Retry(FetchError):
    """Raised by a middleware: the request waits for another try, as after a fetch that failed.

    It is not made before ``after`` seconds have passed. When no try is left, the request ends as an
    error with ``reason``, a short fixed text; 60 characters of it are kept."""

    def __init__(self, reason: str = "retry", after: float = 0.0) -> None:
        """Raises ValueError when ``after`` is not a number of seconds up to a year."""
        if not 0 <= after <= MAX_AFTER:
            raise ValueError(f"after must be seconds from 0 to {MAX_AFTER}, not {after!r}")
        super().__init__(f"a middleware asks for another try: {reason}")
        self.reason = str(reason)
        self.after = after


class EngineFailed(FetchError):
    """The request could not be made because of an error inside the engine, which its text shows."""

    reason = "engine"
    retryable = False


class BadUrl(FetchError):
    """The downloader cannot use this URL."""

    reason = "bad_url"
    retryable = False


class DnsError(FetchError):
    """The host name could not be resolved."""

    reason = "dns"


class ConnectError(FetchError):
    """No connection could be made."""

    reason = "connect"


class TlsError(FetchError):
    """The TLS handshake or certificate check failed. A connection that broke during the handshake
    is a ConnectionLost."""

    reason = "tls"
    retryable = False


class FetchTimeout(FetchError):
    """The response did not arrive within the timeout."""

    reason = "timeout"


class ConnectionLost(FetchError):
    """The connection broke before the response was complete."""

    reason = "connection_lost"


class BadResponse(FetchError):
    """The server's response is not valid HTTP."""

    reason = "bad_response"
    retryable = False


class BadHeader(BadResponse):
    """A header line of the response has no colon. The requests downloader ignores such lines."""


class Blocked(FetchError):
    """The spider's ``is_blocked`` calls the page a block."""

    reason = "blocked"


class BadEncoding(FetchError):
    """The body cannot be decoded with the content encoding that it declares."""

    reason = "bad_encoding"
    retryable = False


class BodyTooLarge(FetchError):
    """The body is larger than the limit, as sent or after decompression."""

    reason = "too_large"
    retryable = False


class TooManyRedirects(FetchError):
    """The redirect limit was exceeded."""

    reason = "too_many_redirects"
    retryable = False


class BadRedirect(FetchError):
    """The redirect points to an address that may not be fetched."""

    reason = "bad_redirect"
    retryable = False


class ProxyFailed(FetchError):
    """The proxy could not be used, whatever the host: it cannot be reached, for instance."""

    reason = "proxy_failed"


class ProxyUnreaching(ProxyFailed):
    """The proxy makes no tunnel to this host, which may be the reason."""


class ProxyAuth(ProxyFailed):
    """The proxy refuses the credentials, or asks for some."""

    reason = "proxy_auth"


class ProxyUnfit(FetchError):
    """The downloader cannot use a proxy of this kind."""

    reason = "proxy_unfit"
    retryable = False


class PrivateAddress(FetchError):
    """The host resolves to a private address, and CRAWLFRAME_ALLOW_PRIVATE does not allow it."""

    reason = "private_address"
    retryable = False

    @classmethod
    def of(cls, address: object, where: str = "") -> Self:
        return cls(
            f"{f'{where}: ' if where else ''}{address} is not a public address; to crawl it, allow "
            "its network in CRAWLFRAME_ALLOW_PRIVATE, and restart the node"
        )


class NoBrowser(FetchError):
    """The node has no browser for requests that need one."""

    reason = "no_browser"
    retryable = False


class BrowserLost(FetchError):
    """The browser ended before the page was complete."""

    reason = "browser_lost"


class PageCrashed(FetchError):
    """The renderer of the page crashed, or the browser failed to show it."""

    reason = "page_crash"


class DownloadRefused(FetchError):
    """The browser would save the document and not show it. Another downloader can fetch it."""

    reason = "download"
    retryable = False


class ActionFailed(FetchError):
    """An action of the request could not be done; the message names it."""

    reason = "action"


class PageOpen(FetchError):
    """A callback that holds a page of the browser asks for another page, and could wait for
    ever."""

    reason = "page_open"
    retryable = False


class Excluded(FetchError):
    """A request that politeness ends. It is not counted as an error."""

    retryable = False


class RobotsForbidden(Excluded):
    """The robots.txt of the origin forbids this URL."""

    reason = "robots"


class UsageDenied(Excluded):
    """The page denies the purpose of the spider."""

    reason = "usage"


class FileRefused(FetchError):
    """The file's type is none that the request saves."""

    reason = "file_type"
    retryable = False


class FileNotStored(FetchError):
    """The file could not be written to the file store, which is full or away."""

    reason = "file_store"


class DownloaderFailed(FetchError):
    """A plug-in downloader cannot be loaded, or raised an error that is not a FetchError."""

    reason = "downloader"
    retryable = False


class TokenRefused(FetchError):
    """An API gave no token."""

    reason = "token"
    retryable = False


class GraphQLFailed(FetchError):
    """A GraphQL API answered with errors."""

    reason = "graphql"

    def __init__(self, message: str, *, passing: bool) -> None:
        """``passing``: another try may help."""
        super().__init__(message)
        self.retryable = passing


class RobotsUnread(FetchError):
    """No server answered when the robots.txt of the origin was asked for, so no page of it may be
    fetched. ``reason``: of the failure, such as "dns"."""

    def __init__(self, origin: str, reason: str, why: str, after: float) -> None:
        """``after``: seconds until it may be asked for again."""
        super().__init__(f"the robots.txt of {origin} could not be read: {why}")
        self.reason = reason
        self.retryable = reason != TlsError.reason
        self.after = after
        self._arguments = (origin, reason, why, after)

    def copy(self) -> RobotsUnread:
        """Returns a new error, for another request."""
        return RobotsUnread(*self._arguments)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``" (did you mean 'x'?)"`` if a known word is close, otherwise ``""``."""
    near = difflib.get_close_matches(word, [*known], n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""
