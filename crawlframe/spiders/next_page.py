"""NextPage: how an API says where its next page is."""

from __future__ import annotations

from typing import Any, Protocol

from requests.utils import parse_header_links

from crawlframe.errors import SpiderError
from crawlframe.links import escaped, join
from crawlframe.request import Request
from crawlframe.response import Response
from crawlframe.robots.rules import origin_of
from crawlframe.spiders.jmes_path import JMESPath
from crawlframe.spiders.request_parameter import RequestParameter, Where


class NextPage(Protocol):
    """What finds the next page."""

    def after(self, response: Response, data: Any, items: list[Any]) -> Request | None:
        """Return the request for the page after ``response``, None if it is the last one. ``data``
        is its JSON, and ``items`` those found in it. The request is that of the page, changed, so
        that headers, body and options stay."""


class NextURL:
    """The page has the URL of the next one, absolute or relative, at a JMESPath."""

    def __init__(self, path: str) -> None:
        self._path = JMESPath(path)

    def after(self, response: Response, data: Any, items: list[Any]) -> Request | None:
        link = self._path.find(data)
        if link is not None and not isinstance(link, str):
            raise SpiderError(f"{response.url}: {self._path} is {link!r}, and no URL")
        return _at(response, link) if link else None


class LinkHeader:
    """The response has a header ``Link`` with ``rel="next"`` (RFC 8288)."""

    def after(self, response: Response, data: Any, items: list[Any]) -> Request | None:
        for header in response.headers.getall("Link", []):
            for link in parse_header_links(header):
                if "next" in link.get("rel", "").lower().split():
                    return _at(response, escaped(link["url"]))
        return None


class Cursor:
    """The page has a cursor at the JMESPath ``path``, which is sent as ``parameter`` for the next
    one. ``where`` is "query", "form" or "json"."""

    def __init__(self, path: str, parameter: str = "cursor", where: Where = "query") -> None:
        self._path = JMESPath(path)
        self._parameter = RequestParameter(parameter, where)

    def after(self, response: Response, data: Any, items: list[Any]) -> Request | None:
        cursor = self._path.find(data)
        if cursor is None or cursor == "" or cursor is False:
            return None
        return self._parameter.set_in(response.request, cursor)


class PageNumber:
    """Pages are numbered; that of the first is ``first``, if its request does not say. ``last`` is
    the JMESPath of the number of pages; without it, the first page without items is the end."""

    def __init__(
        self, parameter: str = "page", *, first: int = 1, last: str = "", where: Where = "query"
    ) -> None:
        self._parameter = RequestParameter(parameter, where)
        self._first = first
        self._last = JMESPath(last) if last else None

    def after(self, response: Response, data: Any, items: list[Any]) -> Request | None:
        number = self._parameter.integer_in(response.request, self._first)
        if not items or (self._last is not None and self._ended(number, response, data)):
            return None
        return self._parameter.set_in(response.request, number + 1)

    def _ended(self, number: int, response: Response, data: Any) -> bool:
        assert self._last is not None
        return number - self._first + 1 >= self._last.number(response, data)


class Offset:
    """Pages begin at an offset, which grows by ``step``, or else by the number of items of the
    page. ``total`` is the JMESPath of the number of items in all; without it, the first page
    without items is the end."""

    def __init__(
        self,
        parameter: str = "offset",
        *,
        step: int = 0,
        total: str = "",
        where: Where = "query",
    ) -> None:
        self._parameter = RequestParameter(parameter, where)
        self._step = step
        self._total = JMESPath(total) if total else None

    def after(self, response: Response, data: Any, items: list[Any]) -> Request | None:
        offset = self._parameter.integer_in(response.request, 0) + (self._step or len(items))
        if not items:
            return None
        if self._total is not None and offset >= self._total.number(response, data):
            return None
        return self._parameter.set_in(response.request, offset)


def _at(response: Response, link: str) -> Request | None:
    """The request of a page with another URL. What a site was given is for that site only: to
    another origin go neither headers, cookies nor body."""
    url = join(response.url, link)
    if url is None:
        raise SpiderError(f"{response.url}: the next page is at {link!r}, which is no http(s) URL")
    request = response.request
    if origin_of(url) == origin_of(request.url):
        return request.replace(url=url)
    return request.replace(url=url, headers={}, cookies={}, body=None, method="GET")
