"""TaskCookies: the cookies of one task in one process, in a form that can be shared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http.cookiejar import Cookie, CookieJar, DefaultCookiePolicy
from typing import Any
from urllib.request import Request as UrlRequest

import orjson

MAX_COOKIES = 300  # of a task; the header of a request must stay small
MAX_SET_COOKIE = 8192  # characters; browsers take 4096 of name and value
_DELETED = ""


class TaskCookies:
    """Keeps and sends cookies by the rules of http.cookiejar (those of requests).

    Shared through plain text entries, ``domain|path|name`` -> JSON; an empty entry deletes."""

    def __init__(self) -> None:
        self._jar = _Jar(DefaultCookiePolicy())

    def header_for(self, url: str, extra: Mapping[str, str] | None = None) -> str | None:
        """The Cookie header for a request; those of ``extra`` win over the task's."""
        cookies: dict[str, str] = {}
        if self._jar.size:
            asking = UrlRequest(url)
            self._jar.add_cookie_header(asking)
            header = asking.unredirected_hdrs.get("Cookie")
            if header and not extra:
                return header
            for pair in (header or "").split("; "):
                cookies[pair.partition("=")[0]] = pair
            cookies.pop("", None)
        for name, value in (extra or {}).items():
            cookies[name] = f"{name}={value}"
        return "; ".join(cookies.values()) or None

    def absorb(self, url: str, set_cookies: Iterable[str]) -> bool:
        """Takes the Set-Cookie headers of an answer. True when that changed something."""
        self._jar.touched, self._jar.recording = False, True
        try:
            self._jar.extract_cookies(_Given(set_cookies), UrlRequest(url))  # type: ignore[arg-type]
        finally:
            self._jar.recording = False
        return self._jar.touched

    def changes(self) -> dict[str, str]:
        """The entries that ``absorb`` changed since the last call: what others must be told."""
        if not self._jar.changed:
            return {}
        keys, self._jar.changed = self._jar.changed, {}
        everything = self.dump()
        return {key: everything.get(key, _DELETED) for key in keys}

    def dump(self) -> dict[str, str]:
        """All entries."""
        return {_key(cookie): _encode(cookie) for cookie in self._jar}

    def load(self, entries: Mapping[str, str]) -> None:
        """Takes entries of another process; what changed here and was not told yet stays."""
        for key, entry in entries.items():
            if key in self._jar.changed:
                continue
            if entry != _DELETED:
                self._jar.set_cookie(_decode(entry))
                continue
            try:
                self._jar.clear(*key.split("|", 2))
            except KeyError:
                pass


class _Jar(CookieJar):
    """Knows how many cookies it has and which ones answers changed."""

    def __init__(self, policy: DefaultCookiePolicy) -> None:
        super().__init__(policy)
        self.size = 0
        self.recording = self.touched = False
        self.changed: dict[str, None] = {}

    def set_cookie(self, cookie: Cookie) -> None:
        name = cookie.name
        before = self._cookies.get(cookie.domain, {}).get(cookie.path, {}).get(name)  # type: ignore[attr-defined]
        if before is None:
            if self.size >= MAX_COOKIES:
                return
            self.size += 1
        if self.recording and (before is None or _encode(before) != _encode(cookie)):
            self._note(_key(cookie))
        super().set_cookie(cookie)

    def clear(
        self, domain: str | None = None, path: str | None = None, name: str | None = None
    ) -> None:
        super().clear(domain, path, name)
        self.size = len(self)
        if self.recording and name is not None:
            self._note(f"{domain}|{path}|{name}")

    def _note(self, key: str) -> None:
        self.changed[key] = None
        self.touched = True


class _Given:
    """What http.cookiejar wants to know of an answer."""

    def __init__(self, set_cookies: Iterable[str]) -> None:
        self._set_cookies = [text for text in set_cookies if len(text) <= MAX_SET_COOKIE]

    def info(self) -> _Given:
        return self

    def get_all(self, name: str, default: Any = None) -> Any:
        return self._set_cookies if name.lower() == "set-cookie" else default


def _key(cookie: Cookie) -> str:
    return f"{cookie.domain}|{cookie.path}|{cookie.name}"


def _encode(cookie: Cookie) -> str:
    return orjson.dumps(
        [
            cookie.name,
            cookie.value,
            cookie.domain,
            cookie.domain_specified,
            cookie.domain_initial_dot,
            cookie.path,
            cookie.path_specified,
            cookie.secure,
            cookie.expires,
        ]
    ).decode()


def _decode(entry: str) -> Cookie:
    name, value, domain, specified, dot, path, path_specified, secure, expires = orjson.loads(entry)
    return Cookie(
        version=0,
        name=name,
        value=value,
        port=None,
        port_specified=False,
        domain=domain,
        domain_specified=specified,
        domain_initial_dot=dot,
        path=path,
        path_specified=path_specified,
        secure=secure,
        expires=expires,
        discard=expires is None,
        comment=None,
        comment_url=None,
        rest={},
    )
