"""Captures: kept pages as they are archived. What was sent with a request is left out, apart from
its headers: it may be a password."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from crawlframe.errors import BadRequest, MissingCode
from crawlframe.request.record import read_head
from crawlframe.warc import Capture, Original, Redirection

HIDDEN = "…"  # in place of the headers that were too many


class Fetched(Protocol):
    """A page that was fetched: a PageCopy, or a row."""

    @property
    def url(self) -> str: ...
    @property
    def method(self) -> str: ...
    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> dict[str, Any]: ...
    @property
    def address(self) -> str: ...
    @property
    def record(self) -> bytes | memoryview: ...


def capture_of(
    page: Fetched, body: bytes, fetched_at: float, original: Original | None = None
) -> Capture:
    headers = page.headers
    return Capture(
        page.url,
        page.status,
        _pairs(headers.get("received", ())),
        body,
        fetched_at,
        method=page.method,
        sent=_pairs(headers.get("sent", ())),
        address=page.address,
        rendered=bool(headers.get("rendered")),
        redirects=_redirects(page) if headers.get("redirects") else (),
        original=original,
    )


def _pairs(headers: Iterable[Iterable[str]]) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in headers if name != HIDDEN)


def _redirects(page: Fetched) -> tuple[Redirection, ...]:
    try:
        url = read_head(bytes(page.record)).url
    except (ValueError, BadRequest, MissingCode):
        return ()
    found = []
    for status, target in page.headers["redirects"]:
        found.append(Redirection(url, status, target))
        url = target
    return tuple(found)
