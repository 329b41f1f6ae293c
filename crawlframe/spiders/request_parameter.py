"""RequestParameter: a named value in the query, the form or the JSON body of a request."""

from __future__ import annotations

from typing import Any, Literal
from urllib.parse import parse_qsl, urlencode

from crawlframe.errors import SpiderError
from crawlframe.request import Request

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
        """Its value in a request, None if it is not there. Text, unless it is in JSON."""
        if self.where != "json":
            return dict(self._pairs(request)).get(self.name)
        value: Any = _json_of(request)
        for key in self.name.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def integer_in(self, request: Request, default: int) -> int:
        """Its value as a number. Raises SpiderError if it is none."""
        value = self.value_in(request)
        try:
            return default if value is None else int(value)
        except (TypeError, ValueError):
            raise SpiderError(f"{request.url}: {self.name} is {value!r}, and no number") from None

    def set_in(self, request: Request, value: Any) -> Request:
        """Return a copy of the request with this value. Raises SpiderError if the body is not what
        ``where`` says."""
        if self.where == "json":
            return request.replace(body=self._changed_json(request, value))
        pairs = [(name, old) for name, old in self._pairs(request) if name != self.name]
        encoded = urlencode([*pairs, (self.name, value)])
        if self.where == "form":
            return request.replace(body=encoded.encode())
        return request.replace(url=f"{request.url.partition('?')[0]}?{encoded}")

    def _pairs(self, request: Request) -> list[tuple[str, str]]:
        if self.where == "form":
            text = (request.body or b"").decode("utf-8", "replace")
        else:
            text = request.url.partition("?")[2]
        return parse_qsl(text, keep_blank_values=True)

    def _changed_json(self, request: Request, value: Any) -> bytes:
        import orjson

        place = body = _json_of(request)
        *path, last = self.name.split(".")
        for key in path:
            place = place.setdefault(key, {}) if isinstance(place, dict) else None
        if not isinstance(place, dict):
            raise SpiderError(f"{request.url}: the JSON body has no place for {self.name!r}")
        place[last] = value
        return orjson.dumps(body)


def _json_of(request: Request) -> Any:
    import orjson

    try:
        return orjson.loads(request.body or b"{}")
    except orjson.JSONDecodeError:
        raise SpiderError(f"{request.url}: the body of the request is not JSON") from None
