"""The errors with which fetches end."""

from __future__ import annotations

from typing import Any, Self

from crawlframe.errors.crawling import CrawlframeError

MAX_AFTER = 366 * 24 * 3600  # seconds that another try may be put off


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
