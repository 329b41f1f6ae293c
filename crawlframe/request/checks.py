"""Checks of a request: its callback, and its head, where invalid parts could smuggle in a header or
another request."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from crawlframe.base.secret import MASK
from crawlframe.base.urls import login_of
from crawlframe.errors import BadRequest

Callback = Callable[..., Any] | str  # a method of a spider, or its name
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_COOKIE_NAME = re.compile(r"[^\0\r\n=;\ud800-\udfff]+")
_UNSAFE = re.compile(r"[\0\r\n\ud800-\udfff]")


def callback_name(callback: Callback | None, field: str = "callback") -> str | None:
    """Return the name of a spider's method. Raises BadRequest for any other function."""
    if callback is None or isinstance(callback, str):
        return callback or None
    name = getattr(callback, "__name__", "")
    if not name or name == "<lambda>" or getattr(callback, "__self__", None) is None:
        raise BadRequest(
            f"{field} must be a method of the spider or its name, not {callback!r}: the request "
            "may run in another process"
        )
    return name


def check_method(url: str, method: str) -> None:
    """Raises BadRequest if the text is not an HTTP method."""
    if not _TOKEN.fullmatch(method):
        raise BadRequest(f"request {url}: {method!r} is not an HTTP method")


def check_head(url: str, headers: Mapping[Any, Any], cookies: Mapping[Any, Any]) -> None:
    """Raises BadRequest naming the header or cookie."""
    if problem := wrong_in_head(headers, cookies):
        raise BadRequest(f"request {url}: {problem}")


def wrong_in_head(headers: Mapping[Any, Any], cookies: Mapping[Any, Any]) -> str:
    """The first header or cookie that cannot be sent; "" if all can."""
    for name, values in (("headers", headers), ("cookies", cookies)):
        for key, value in values.items():
            if not isinstance(key, str) or not isinstance(value, str):
                return f"{name}[{key!r}] must be text"
            if not (_TOKEN if name == "headers" else _COOKIE_NAME).fullmatch(key):
                return f"{name}: {key!r} is not a valid name"
            if _UNSAFE.search(value) or (name == "cookies" and ";" in value):
                return (
                    f"{name}[{key!r}] has a line break or another character that is not allowed "
                    "there"
                )
    return ""


def headers_of(url: str, headers: Mapping[str, str] | None) -> dict[str, str]:
    """A request's headers, with an Authorization if its URL has a login, and they have none."""
    own = dict(headers) if headers else {}
    if "@" in url and not any(str(name).lower() == "authorization" for name in own):
        own |= {"Authorization": login} if (login := login_of(url)) else {}
    return own


def shown_headers(headers: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The headers without secrets, as ``headers``; empty without any."""
    shown = {n: MASK if str(n).lower() == "authorization" else v for n, v in headers.items()}
    return {"headers": shown} if shown else {}


def cookies_of(url: str, cookies: Any) -> dict[str, str]:
    """A request's cookies from a mapping, or from a list of names and values. Raises BadRequest."""
    if isinstance(cookies, Mapping):
        return dict(cookies)
    taken: dict[str, str] = {}
    for cookie in cookies:
        if not isinstance(cookie, Mapping) or not cookie.keys() >= {"name", "value"}:
            raise BadRequest(
                f"request {url}: cookies must be a dict of names and values, or a list of "
                f"{{'name': ..., 'value': ...}}; it has {_keys(cookie)}"
            )
        if other := sorted(cookie.keys() - {"name", "value"}):
            raise BadRequest(
                f"request {url}: cookies: {other[0]!r} of cookie {cookie['name']!r} is not "
                "supported: a request's cookies go to its own host only; leave it out"
            )
        taken[cookie["name"]] = cookie["value"]
    return taken


def _keys(cookie: Any) -> str:
    """The names in a cookie argument: values of cookies are secrets."""
    return f"a dict of {sorted(cookie)}" if isinstance(cookie, Mapping) else type(cookie).__name__
