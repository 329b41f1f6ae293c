"""RequestParameter: a named value in the query, the form or the JSON body of a request."""

from __future__ import annotations

from typing import Any, Literal
from urllib.parse import unquote_plus, urlencode

from crawlframe.base.exact_json import dumps, loads
from crawlframe.errors import SpiderError
from crawlframe.request.request import Request

Where = Literal["query", "form", "json"]


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


def whole_number(value: Any) -> int | None:
    """The number that JSON or a text has, None if it is none."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    exact = isinstance(value, str) or (number == value and value is not True and value is not False)
    return number if exact else None


def _read(pair: str) -> tuple[str, str]:
    name, _, value = pair.partition("=")
    return unquote_plus(name), unquote_plus(value)


def _json_of(request: Request) -> Any:
    try:
        return loads(request.body or b"{}")
    except (ValueError, RecursionError):
        raise SpiderError(f"{request.url}: the body of the request is not JSON") from None
