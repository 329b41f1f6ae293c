"""NextPage: how an API says where its next page is."""

from __future__ import annotations

from typing import Any, Literal, Protocol
from urllib.parse import unquote_plus, urlencode

from crawlframe.base.exact_json import dumps, loads
from crawlframe.base.urls import escaped, join
from crawlframe.errors import SpiderError
from crawlframe.markup.links import targets_of
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlframe.robots.rules import origin_of
from crawlframe.spiders.jmes_path import JMESPath, whole_number

Where = Literal["query", "form", "json"]


class NextPage(Protocol):
    """An object that finds the next page. It may have attributes that are true: ``certain``, if the
    API says explicitly whether there is a next page, and ``in_page``, if pages may differ in this
    alone."""

    def after(self, response: Response, data: Any, items: list[Any]) -> Request | None:
        """Return the request for the page after ``response``, None if it is the last. ``data`` is
        its JSON, and ``items`` are found in it. The request is the page's, changed, so that
        headers, body and options stay."""


class NextURL:
    """The page has the URL of the next one, absolute or relative, at a JMESPath."""

    in_page = True

    def __init__(self, path: str) -> None:
        self._path = JMESPath(path)

    def after(self, response: Response, data: Any, items: list[Any]) -> Request | None:
        link = self._path.find(data)
        if link is None or link is False or link == "":
            return None
        if not isinstance(link, str):
            raise SpiderError(f"{response.url}: {self._path} is {link!r}, and no URL")
        return _at(response, link)


class LinkHeader:
    """The response has a header ``Link`` with ``rel="next"`` (RFC 8288)."""

    def after(self, response: Response, data: Any, items: list[Any]) -> Request | None:
        try:
            for target, anchor in targets_of(response.headers.getall("Link", []), "next"):
                if join(response.url, anchor) == response.url:
                    return _at(response, escaped(target))
        except ValueError as error:
            if "next" in str(error).lower():
                raise SpiderError(
                    f"{response.url}: the header Link cannot be read from {str(error)[:200]!r} on"
                ) from None
        return None


class Cursor:
    """The page has a cursor at the JMESPath ``path``, which is sent as ``parameter`` for the next
    one. ``where`` is "query", "form" or "json"."""

    in_page = True

    def __init__(self, path: str, parameter: str = "cursor", where: Where = "query") -> None:
        self._path = JMESPath(path)
        self._parameter = RequestParameter(parameter, where)

    def after(self, response: Response, data: Any, items: list[Any]) -> Request | None:
        cursor = self._path.find(data)
        if cursor is None or cursor == "" or cursor is False:
            return None
        return self._with(response, cursor)

    def _with(self, response: Response, cursor: Any) -> Request:
        nested = isinstance(cursor, dict | list) and self._parameter.where != "json"
        if nested or cursor is True:
            raise SpiderError(f"{response.url}: {self._path} is {cursor!r:.200}, and no cursor")
        return self._parameter.set_in(response.request, cursor)


class Connection(Cursor):
    """The ``pageInfo`` of a GraphQL connection at the JMESPath ``path``
    (https://relay.dev/graphql/connections.htm)."""

    certain = True

    def after(self, response: Response, data: Any, items: list[Any]) -> Request | None:
        info = self._path.find(data)
        more = info.get("hasNextPage") if isinstance(info, dict) else None
        if not isinstance(more, bool) or (more and info.get("endCursor") in (None, "", False)):
            raise SpiderError(
                f"{response.url}: {self._path} is {info!r:.200}; it must have hasNextPage, and an "
                "endCursor if that is true: name both in the query"
            )
        return self._with(response, info["endCursor"]) if more else None


class PageNumber:
    """Pages are numbered; the first is ``first``, if its request does not say. ``last`` is the
    JMESPath of the number of pages; without it, the first page without items is the end."""

    def __init__(
        self, parameter: str = "page", *, first: int = 1, last: str = "", where: Where = "query"
    ) -> None:
        self._parameter = RequestParameter(parameter, where)
        self._first = first
        self._last = JMESPath(last) if last else None
        self.certain = self._last is not None

    def after(self, response: Response, data: Any, items: list[Any]) -> Request | None:
        number = self._parameter.integer_in(response.request, self._first)
        if not items and (self._last is None or self._last.find(data) is None):
            return None
        seen = number - self._first + 1
        if self._last is not None and seen >= self._last.number(response, data):
            return None
        return self._parameter.set_in(response.request, number + 1)


class Offset:
    """Pages start at an offset, which grows by ``step``, or else by the number of items of the
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
        self.certain = self._total is not None

    def after(self, response: Response, data: Any, items: list[Any]) -> Request | None:
        offset = self._parameter.integer_in(response.request, 0) + (self._step or len(items))
        if not items and (self._total is None or self._total.find(data) is None):
            return None
        if self._total is not None:
            if offset >= self._total.number(response, data):
                return None
            if not (items or self._step):
                raise SpiderError(
                    f"{response.url}: the page has no items, but {self._total} says that there are "
                    "more; leave total out if it counts what is not shown"
                )
        return self._parameter.set_in(response.request, offset)


class RequestParameter:
    """``where`` is "query", "form" or "json"; in JSON, a ``name`` with dots leads into objects:
    ``variables.after``. Raises SpiderError for another place."""

    def __init__(self, name: str, where: Where = "query") -> None:
        if not name:
            raise SpiderError(f"a parameter must have a name, such as 'page', not {name!r}")
        if where not in ("query", "form", "json"):
            raise SpiderError(
                f"parameter {name!r}: where must be query, form or json, not {where!r}"
            )
        self.name, self.where = name, where

    def value_in(self, request: Request) -> Any:
        """The parameter's value in a request, None if it has none. Text, unless it is in JSON."""
        if self.where != "json":
            return dict(map(_read, self._pairs(request))).get(self.name)
        value: Any = _json_of(request)
        for key in self.name.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def integer_in(self, request: Request, default: int) -> int:
        """The parameter's value as a number. Raises SpiderError if it is none."""
        value = self.value_in(request)
        number = default if value is None else whole_number(value)
        if number is None:
            raise SpiderError(f"{request.url}: {self.name} is {value!r:.200}, and no number")
        return number

    def set_in(self, request: Request, value: Any) -> Request:
        """Return a copy of the request with this value. Raises SpiderError if the body is not of
        the type of ``where``."""
        if self.where == "json":
            return request.replace(body=self._changed_json(request, value))
        others = [pair for pair in self._pairs(request) if _read(pair)[0] != self.name]
        encoded = "&".join([*others, urlencode([(self.name, value)])])
        if self.where == "form":
            return request.replace(body=encoded.encode())
        return request.replace(url=f"{request.url.partition('?')[0]}?{encoded}")

    def _pairs(self, request: Request) -> list[str]:
        """The pairs as they are written, so that others stay as they are."""
        if self.where == "form":
            text = (request.body or b"").decode("utf-8", "replace")
        else:
            text = request.url.partition("?")[2]
        return [pair for pair in text.split("&") if pair]

    def _changed_json(self, request: Request, value: Any) -> bytes:
        place = body = _json_of(request)
        *path, last = self.name.split(".")
        for key in path:
            place = place.setdefault(key, {}) if isinstance(place, dict) else None
        if not isinstance(place, dict):
            raise SpiderError(f"{request.url}: the JSON body has no place for {self.name!r}")
        place[last] = value
        return dumps(body)


def shown(data: Any) -> str:
    """The keys or values of a page, for a message."""
    keys = f"the keys {', '.join(sorted(data)[:20])}" if isinstance(data, dict) else repr(data)
    return keys[:500]


def _at(response: Response, link: str) -> Request | None:
    """The request of a page with another URL. Headers, cookies and body are for one site only:
    another origin gets none of them."""
    url = join(response.url, link)
    if url is None:
        raise SpiderError(f"{response.url}: the next page is at {link!r}, which is no http(s) URL")
    request = response.request
    if origin_of(url) == origin_of(request.url):
        return request.replace(url=url)
    return request.replace(url=url, headers={}, cookies={}, body=None, method="GET")


def _read(pair: str) -> tuple[str, str]:
    name, _, value = pair.partition("=")
    return unquote_plus(name), unquote_plus(value)


def _json_of(request: Request) -> Any:
    try:
        return loads(request.body or b"{}")
    except (ValueError, RecursionError):
        raise SpiderError(f"{request.url}: the body of the request is not JSON") from None
