"""Downloads: the downloader middlewares of a project, around our fetch."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable
from typing import Any
from weakref import WeakValueDictionary

from scrapy import Request as ScrapyRequest
from scrapy import exceptions
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response as ScrapyResponse
from scrapy.spidermiddlewares.httperror import HttpError
from scrapy.utils.defer import ensure_awaitable
from scrapy.utils.url import url_is_from_any_domain
from twisted.internet import error as twisted
from twisted.python.failure import Failure
from w3lib.http import basic_auth_header

from crawlframe import errors
from crawlframe.base.stats import RUNNING
from crawlframe.errors import FetchError, SpiderError
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlframe.scrapy import components, responses
from crawlframe.scrapy.crawler import PortedCrawler
from crawlframe.scrapy.requests import Translator

CallNext = Callable[[Request], Awaitable[Response]]
NO_PAGE = 204  # the status of a response that stands for a request that was not fetched


class Downloads:
    """The middlewares of one spider object, and its HTTP authentication, whose password is added
    here so that it is not in the row of a request."""

    def __init__(self, crawler: PortedCrawler, translator: Translator) -> None:
        self._spider = spider = crawler.spider
        self._translator = translator
        listed = components.made(crawler, components.DOWNLOADER)
        self._requests = components.methods(listed, "process_request", spider)
        self._responses = components.methods(listed[::-1], "process_response", spider)
        self._exceptions = components.methods(listed[::-1], "process_exception", spider)
        self._auth, self._auth_domain = _login_of(crawler)

    async def fetch(self, request: Request, call_next: CallNext) -> Response:
        """The response after all middlewares. One that stands for another request, or for one that
        is ignored, has it in its attribute ``scrapy``. Raises FetchError."""
        asked = self._translator.theirs(request)
        try:
            result = await self._fetched(asked, request, call_next)
            if isinstance(result, ScrapyResponse):
                result = await self._processed(asked, result)
        except IgnoreRequest as ignored:
            result = ignored
        except FetchError:
            raise
        except Exception as error:
            raise fetch_error_of(error) from error
        if isinstance(result, ScrapyResponse):
            response = responses.ours(result, request)
            response.redirects = tuple(asked.meta.get("redirect_urls", ()))
        else:
            response = Response(request.url, NO_PAGE, {}, b"", request)
        vars(response)["scrapy"] = result
        return response

    async def _fetched(self, asked: ScrapyRequest, request: Request, call_next: CallNext) -> Any:
        """A response or a request in place of it."""
        try:
            for process in self._requests:
                result = await ensure_awaitable(process(request=asked))
                if result is not None:
                    return result
            response = await call_next(self._sent(asked, request))
        except FetchError as error:
            return await self._recovered(asked, exception_of(error), error)
        except Exception as error:
            return await self._recovered(asked, error, error)
        return responses.theirs(response, asked)

    async def _recovered(self, asked: ScrapyRequest, seen: Exception, error: Exception) -> Any:
        for process in self._exceptions:
            result = await ensure_awaitable(process(request=asked, exception=seen))
            if result is not None:
                return result
        raise error

    async def _processed(self, asked: ScrapyRequest, response: Any) -> Any:
        if response.request is None:
            response.request = asked
        for process in self._responses:
            response = await ensure_awaitable(process(request=asked, response=response))
            if not isinstance(response, ScrapyResponse):
                break
        return response

    def _sent(self, asked: ScrapyRequest, request: Request) -> Request:
        """Our request as the middlewares have changed it."""
        made = self._translator.ours(asked)
        sent = copy.copy(request)
        sent.url, sent.method, sent.body = made.url, made.method, made.body
        sent.headers, sent.cookies = made.headers, made.cookies
        sent.options = made.options._replace(
            retries=request.options.retries, handle=request.options.handle
        )
        domain = self._auth_domain
        if self._auth and (not domain or url_is_from_any_domain(sent.url, [domain])):
            sent.headers.setdefault("Authorization", self._auth.decode())
        return sent


class DownloadsOfTasks:
    """The middleware that a spider class has: each task in a worker has Downloads of its own."""

    def __init__(self) -> None:
        self.tasks: WeakValueDictionary[int, Any] = WeakValueDictionary()

    async def fetch(self, request: Request, call_next: CallNext) -> Response:
        """Fetches as the running task does. Raises SpiderError if none runs."""
        running: Any = RUNNING.get(None)
        port = self.tasks.get(getattr(running, "task", 0))
        if port is None:
            raise SpiderError(
                "the downloader middlewares of a Scrapy spider run only in a task; leave out "
                "--spider, or use `parse`"
            )
        downloads: Downloads = port.downloads
        return await downloads.fetch(request, call_next)


def _login_of(crawler: PortedCrawler) -> tuple[bytes, str | None]:
    """The Authorization of the spider, or else of the settings, and the domain that gets it; None:
    all. Raises ValueError where Scrapy does."""
    spider, settings = crawler.spider, crawler.settings
    user, password = (getattr(spider, f"http_{name}", "") for name in ("user", "pass"))
    domain = getattr(spider, "http_auth_domain", None)
    if not (user or password):
        user, password = (settings.get(f"HTTPAUTH_{name}") or "" for name in ("USER", "PASS"))
        domain = settings.get("HTTPAUTH_DOMAIN")
        if (user or password) and not settings.getpriority("HTTPAUTH_DOMAIN"):
            raise ValueError(
                "HTTPAUTH_DOMAIN must be set for HTTPAUTH_USER; None means all domains"
            )
    return (basic_auth_header(user, password) if user or password else b""), domain


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
    """Scrapy's exception for a fetch that brought no response."""
    cause = error.__cause__
    if isinstance(error, Ignored | Broken) and isinstance(cause, Exception):
        return cause
    for ours, theirs in _KINDS:
        if isinstance(error, ours):
            return theirs(str(error))
    return exceptions.DownloadFailedError(str(error))


def fetch_error_of(error: Exception) -> FetchError:
    """A middleware's exception, as an error that ends the request."""
    if isinstance(error, FetchError):
        return error
    if isinstance(error.__cause__, FetchError):  # of its own fetch
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
