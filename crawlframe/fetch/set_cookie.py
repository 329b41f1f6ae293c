"""Set-Cookie: the cookies a response may set, by RFC 6265 and its successor
(draft-ietf-httpbis-rfc6265bis)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from functools import lru_cache
from http.cookiejar import Cookie, CookieJar, DefaultCookiePolicy
from typing import Any
from urllib.request import Request as UrlRequest

from crawlframe.links import hostname_of
from crawlframe.public_suffixes import suffix_list

MAX_COOKIE = 4096  # bytes of name and value, as RFC 6265, 6.1, asks for
MAX_AGE = 400 * 86400  # seconds, as its successor says
MAX_SET_COOKIE = 8192  # characters, attributes included


def cookie_of(
    name: str,
    value: str | None,
    domain: str,
    domain_specified: bool,
    domain_initial_dot: bool,
    path: str,
    path_specified: bool,
    secure: bool,
    expires: int | None,
) -> Cookie:
    """A cookie; ``expires`` is a Unix time."""
    return Cookie(
        version=0,
        name=name,
        value=value,
        port=None,
        port_specified=False,
        domain=domain,
        domain_specified=domain_specified,
        domain_initial_dot=domain_initial_dot,
        path=path,
        path_specified=path_specified,
        secure=secure,
        expires=expires,
        discard=expires is None,
        comment=None,
        comment_url=None,
        rest={},
    )


def path_of(url: str) -> str:
    """The path of an http URL, without its query."""
    start = url.find("/", 8)
    return url[start:].partition("?")[0]


class SetCookieReader(CookieJar):
    """Reads Set-Cookie headers; keeps nothing."""

    def __init__(self) -> None:
        super().__init__(DefaultCookiePolicy())
        self._found: list[Cookie] = []

    def read(self, url: str, set_cookies: Iterable[str]) -> Iterator[Cookie]:
        """The cookies that a response of ``url`` may set, or delete: those are expired."""
        asked = UrlRequest(url)
        for text in set_cookies:
            if len(text) <= MAX_SET_COOKIE:
                self._found = []
                made = self.make_cookies(_Given(text), asked)  # type: ignore[arg-type]
                yield from (cookie for cookie in [*made, *self._found] if _accept(cookie, url))

    def clear(
        self, domain: str | None = None, path: str | None = None, name: str | None = None
    ) -> None:
        """Called by ``make_cookies`` for an expired cookie, which it does not return."""
        dotted = (domain or "").startswith(".")
        # Marked as secure, it may have any prefix.
        cookie = cookie_of(name or "", "", domain or "", dotted, dotted, path or "", True, True, 0)
        self._found.append(cookie)


class _Given:
    """The part of a response that http.cookiejar reads."""

    def __init__(self, set_cookie: str) -> None:
        self._set_cookie = set_cookie

    def info(self) -> _Given:
        return self

    def get_all(self, name: str, default: Any = None) -> Any:
        return [self._set_cookie] if name.lower() == "set-cookie" else default


def _accept(cookie: Cookie, url: str) -> bool:
    """Whether a response of ``url`` may set or delete the cookie. Sets its domain and path to the
    effective ones."""
    name, value, host = cookie.name, cookie.value or "", hostname_of(url)
    cookie.secure = cookie.secure is not False  # for "Secure=x" it is "x"
    unsafe = cookie.secure and not cookie.is_expired() and not url.startswith("https:")
    if unsafe or len(name) + len(value) > MAX_COOKIE:
        return False
    label = (name or value).lower()
    if label.startswith(("__secure-", "__host-")) and not cookie.secure:
        return False
    if label.startswith("__host-") and (cookie.domain_specified or cookie.path != "/"):
        return False
    if not cookie.path.startswith("/"):
        cookie.path = path_of(url).rpartition("/")[0] or "/"
    domain = cookie.domain.removeprefix(".").lower()
    if cookie.expires is not None:
        cookie.expires = min(cookie.expires, int(time.time()) + MAX_AGE)
    if not cookie.domain_specified or not domain:
        cookie.domain, cookie.domain_specified = host, False
    elif is_address(host) or is_public_suffix(domain):
        cookie.domain, cookie.domain_specified = host, False
        return domain == host
    else:
        cookie.domain = f".{domain}"
        return f".{host}".endswith(cookie.domain)
    return True


def is_address(host: str) -> bool:
    """Whether the host is an IP address, not a name."""
    return host.endswith("]") or host.rpartition(".")[2].isdigit()


@lru_cache(maxsize=4096)
def is_public_suffix(domain: str) -> bool:
    """Whether strangers have domains below this one, as with co.uk and github.io: by the Public
    Suffix List, private section included. A domain of one label always counts."""
    return "." not in domain or suffix_list().is_public(domain)
