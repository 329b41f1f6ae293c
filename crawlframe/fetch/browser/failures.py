"""Failures: the error that a failure of Chromium or Playwright stands for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from crawlframe import errors

if TYPE_CHECKING:  # workers read this, and have no need of Playwright
    from playwright.async_api import Error, Page

_NET = re.compile(r"net::ERR_(\w+)")
# The first pattern that Chromium's name of a network error begins with.
_NAMES: list[tuple[str, type[errors.FetchError]]] = [
    ("CERT_|SSL_|BAD_SSL|NO_SSL|TLS_", errors.TlsError),
    ("NAME_NOT_RESOLVED|NAME_RESOLUTION_FAILED|DNS_", errors.DnsError),
    ("CONNECTION_REFUSED|ADDRESS_|TUNNEL_|PROXY_|INTERNET_DISCONNECTED", errors.ConnectError),
    ("TIMED_OUT|CONNECTION_TIMED_OUT", errors.FetchTimeout),
    ("CONTENT_DECODING_", errors.BadEncoding),
    ("TOO_MANY_REDIRECTS", errors.TooManyRedirects),
    ("INVALID_URL|UNSAFE_PORT|DISALLOWED_URL_SCHEME|UNKNOWN_URL_SCHEME", errors.BadUrl),
    ("INVALID_RESPONSE|INVALID_HTTP|RESPONSE_HEADERS|INVALID_CHUNKED", errors.BadResponse),
    ("", errors.ConnectionLost),
]


def is_end(page: Page, error: Error) -> bool:
    """Whether an error of a call says that the page, or its browser, has ended. Its text does not:
    scripts of the page throw any text."""
    return page.is_closed() or error.name == "TargetClosedError"  # a class that is not exported


def name(page: Page, error: Error, where: str) -> errors.FetchError:
    """The error that one of Playwright stands for, when nothing else is known of the page."""
    text = str(error).split("\n", 1)[0][:500]
    if is_end(page, error):
        return errors.PageCrashed(f"{where}: the page closed itself")
    if found := _NET.search(text):
        kind = next(kind for pattern, kind in _NAMES if re.match(pattern, found[1]))
        return kind(f"{where}: {found[0]}")
    if "Download is starting" in text:
        return errors.DownloadRefused(f"{where} is a download")
    return errors.PageCrashed(f"{where}: {text}")


def made(kind: str, message: str) -> errors.FetchError:
    """The error of that name, as it was sent by the host."""
    found = getattr(errors, kind, None)
    if not (isinstance(found, type) and issubclass(found, errors.FetchError)):
        found = errors.BrowserLost
    try:
        error: errors.FetchError = found(message)
    except TypeError:  # one with other arguments, which the host does not raise
        error = errors.BrowserLost(message)
    return error
