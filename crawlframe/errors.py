"""Every exception of the engine. The docstring is what a user reads when no message is given."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any


class CrawlframeError(Exception):
    """Something in Crawlframe went wrong."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())


class ConfigError(CrawlframeError):
    """A setting is wrong. Raised at start-up; the message names the setting and the mend."""


class TablesMissing(ConfigError):
    """The database lacks tables of this version. Raised at start-up; a supervisor knows it by the
    exit code."""

    exit_code = 4


class SpiderError(CrawlframeError):
    """A spider breaks the contract: bad settings, unknown callback, an item or request that cannot
    be stored. The message names the spider's part to change."""


class UnknownSpider(SpiderError):
    """No loaded spider has this name."""


class UnknownCallback(SpiderError):
    """The spider has no method of this name."""


class ArgumentError(CrawlframeError):
    """A spider argument is unknown, missing or of the wrong type."""


class BadRequest(CrawlframeError):
    """A request cannot be made: its URL, method, body or other field is wrong."""


class MissingCode(BadRequest):
    """What a queued request needs is not in the code of this node; another version may have it."""


class FrontierError(CrawlframeError):
    """Redis refused or failed a verb of the frontier."""


class Fenced(FrontierError):
    """This generation was declared dead; its requests belong to others now. Start a new one."""


class EraChanged(Fenced):
    """Redis lost something and is filled again from the database, or was. What this process holds
    belongs to others now."""


class DropItem(CrawlframeError):
    """Raised by a pipeline: the item is not stored.

    ``reason`` is a short, fixed text; the task shows how many items were dropped for it."""

    def __init__(self, reason: str = "no reason given") -> None:
        super().__init__(str(reason))
        self.reason = str(reason)


class CloseTask(CrawlframeError):
    """Raised by a callback or a pipeline: the task ends early, as finished.

    What is in flight ends, the rest is cancelled. ``reason`` is shown with the outcome; 200
    characters of it are kept."""

    def __init__(self, reason: str) -> None:
        super().__init__(str(reason))
        self.reason = str(reason)


class NotJson(CrawlframeError, ValueError):
    """The body of a response is not JSON."""


class UnparsablePage(CrawlframeError):
    """A page would take its parser so long that the worker does not begin.

    ``reason`` is the short stable word stored in the ledger."""

    reason = "too_complex"


class TooComplex(UnparsablePage):
    """The page has too many tags, attributes, names or unclosed elements for a parser."""


class TooDeep(UnparsablePage):
    """The elements of the page, or the parts of its JSON, are nested too deeply for a parser."""

    reason = "too_deep"


class FetchError(CrawlframeError):
    """A fetch ended without a usable response.

    ``reason`` is the short stable word stored in the ledger; ``retryable`` tells whether another
    try may help."""

    reason = "fetch"
    retryable = True
    request: Any = None  # the Request, for an errback
    response: Any = None  # the Response, where there was one


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
    """The server's answer is not valid HTTP."""

    reason = "bad_response"
    retryable = False


class BadHeader(BadResponse):
    """A header line of the answer has no colon. The requests downloader passes over such lines."""


class BadEncoding(FetchError):
    """The body does not decode with the content encoding it declares."""

    reason = "bad_encoding"
    retryable = False


class BodyTooLarge(FetchError):
    """The body is larger than the limit, as sent or after decompression."""

    reason = "too_large"
    retryable = False


class TooManyRedirects(FetchError):
    """The redirect limit was passed."""

    reason = "too_many_redirects"
    retryable = False


class BadRedirect(FetchError):
    """The redirect leads to an address that may not be fetched."""

    reason = "bad_redirect"
    retryable = False


class PrivateAddress(FetchError):
    """The host resolves to a private address, and CRAWLFRAME_ALLOW_PRIVATE does not allow it."""

    reason = "private_address"
    retryable = False


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`` (did you mean 'x'?)`` when one of the known words is near, else nothing."""
    near = difflib.get_close_matches(word, [*known], n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""
