"""Failures: what our fetch raises, as the errors that Scrapy's errbacks and middlewares know."""

from __future__ import annotations

from typing import Any

from scrapy import exceptions
from scrapy.spidermiddlewares.httperror import HttpError
from twisted.internet import error as twisted
from twisted.python.failure import Failure

from crawlframe import errors
from crawlframe.errors import FetchError


# Spiders check for the names of Twisted, which Scrapy raised before it had names of its own.
class NoAddress(exceptions.CannotResolveHostError, twisted.DNSLookupError):
    """The host name could not be resolved."""


class TookTooLong(exceptions.DownloadTimeoutError, twisted.TimeoutError):
    """The response did not arrive in time."""


class NotConnected(exceptions.DownloadConnectionRefusedError, twisted.ConnectionRefusedError):
    """No connection could be made."""


class Lost(exceptions.DownloadFailedError, twisted.ConnectionLost):
    """The connection broke before the response was complete."""


_KINDS: tuple[tuple[type[FetchError], type[Exception]], ...] = (
    (errors.DnsError, NoAddress),
    (errors.FetchTimeout, TookTooLong),
    (errors.ConnectError, NotConnected),
    (errors.ConnectionLost, Lost),
    (errors.Excluded, exceptions.IgnoreRequest),
    (errors.BodyTooLarge, exceptions.DownloadCancelledError),
    (errors.TooManyRedirects, exceptions.IgnoreRequest),
)


class Ignored(FetchError):
    """A middleware raised IgnoreRequest."""

    reason = "ignored"
    retryable = False


class Broken(FetchError):
    """A middleware raised another error than IgnoreRequest, which the errback gets."""

    reason = "middleware"
    retryable = False


def exception_of(error: FetchError) -> Exception:
    """What Scrapy would raise for a fetch that brought no response."""
    cause = error.__cause__
    if isinstance(error, Ignored | Broken) and isinstance(cause, Exception):
        return cause
    for ours, theirs in _KINDS:
        if isinstance(error, ours):
            return theirs(str(error))
    return exceptions.DownloadFailedError(str(error))


def fetch_error_of(error: Exception) -> FetchError:
    """What a middleware raised, as an error that ends the request."""
    if isinstance(error, FetchError):
        return error
    if isinstance(error.__cause__, FetchError):  # of what it fetched itself
        return error.__cause__
    ignored = isinstance(error, exceptions.IgnoreRequest)
    ours: FetchError = (Ignored if ignored else Broken)(f"{type(error).__name__}: {error}")
    ours.__cause__ = error
    return ours


def failure_of(error: FetchError, request: Any, response: Any) -> Failure:
    """The Failure for an errback: HttpError if there is a ``response``."""
    if response is not None:
        value: Exception = HttpError(response, "Ignoring non-200 response")
    else:
        value = exception_of(error)
    failure = Failure(value)
    failure.request = request  # type: ignore[attr-defined]
    return failure
