"""TaskCookies: the cookies of one task in one process, in a form that can be shared."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from http.cookiejar import Cookie, CookieJar, DefaultCookiePolicy
from typing import Any
from urllib.request import Request as UrlRequest

import orjson

from crawlframe.errors import BadRequest
from crawlframe.links import hostname_of

# RFC 6265, 6.1, asks for at least 50 cookies of a domain, 4096 bytes of each and 3000 in all.
MAX_PER_DOMAIN = 50
MAX_COOKIE = 4096  # bytes of name and value
MAX_COOKIES = 3000  # of a task
MAX_AGE = 400 * 86400  # seconds, as its successor says
MAX_SET_COOKIE = 8192  # characters, attributes included
MAX_HEADER = 8192  # bytes of the Cookie header; servers refuse more
_DELETED = ""

log = logging.getLogger(__name__)

_Path = tuple[str, str]  # path and name: unique in a domain


class TaskCookies:
    """Keeps and sends cookies by RFC 6265 and its successor (draft-ietf-httpbis-rfc6265bis).

    A domain has at most MAX_PER_DOMAIN cookies: those that were set longest ago go first. Above
    MAX_COOKIES in all, the domains that were not used for longest go. Methods of one thread.

    Each named session is a jar of its own, "" is that of all other requests; the limits hold for
    all of them together.

    Shared through plain text entries, ``domain|path|name`` -> JSON; an empty entry deletes. A
    domain with a dot in front includes those below it. In a session ``domain`` is
    ``session/domain``, which is no host's: a process that knows no sessions sends it to nobody."""

    def __init__(self) -> None:
        self.dropped = 0  # cookies for which there was no room
        self._domains: dict[str, dict[_Path, Cookie]] = {}  # the last used is the last
        self._size = 0
        self._changed: dict[str, bool] = {}  # key -> is it new, and known nowhere else?
        self._parser = _Parser()

    def header_for(
        self, url: str, extra: Mapping[str, str] | None = None, session: str = ""
    ) -> str | None:
        """The Cookie header for a request, at most MAX_HEADER bytes; cookies of ``extra`` win over
        those of the jar. Raises BadRequest when those alone are more."""
        own = own_header(url, extra) if extra else ""
        if not self._size:
            return own or None
        room = MAX_HEADER - len(own.encode())
        pairs: list[str] = []
        for cookie in self._matching(url, session):
            pair = cookie.name if cookie.value is None else f"{cookie.name}={cookie.value}"
            if (extra and cookie.name in extra) or len(pair) + 2 > room:
                continue
            room -= len(pair) + 2
            pairs.append(pair)
        return "; ".join([*pairs, own] if own else pairs) or None

    def absorb(self, url: str, set_cookies: Iterable[str], session: str = "") -> bool:
        """Takes the Set-Cookie headers of an answer. True when that changed something."""
        host, asked, changed = hostname_of(url), UrlRequest(url), False
        for text in set_cookies:
            if len(text) > MAX_SET_COOKIE:
                continue
            for cookie in self._parser.parse(text, asked):
                if _accept(cookie, host, url.startswith("https:")):
                    cookie.domain = _domain_in(session, cookie.domain)
                    changed |= self._delete(cookie) if cookie.is_expired() else self._put(cookie)
        return changed

    def changes(self) -> dict[str, str]:
        """The entries that changed here since the last call: what others must be told."""
        if not self._changed:
            return {}
        keys, self._changed = self._changed, {}
        return {key: self._entry(key) for key in keys}

    def dump(self) -> dict[str, str]:
        """All entries."""
        return {
            _key(cookie): _encode(cookie)
            for cookies in self._domains.values()
            for cookie in cookies.values()
        }

    def load(self, entries: Mapping[str, str]) -> None:
        """Takes entries of another process; what changed here and was not told yet stays."""
        for key, entry in entries.items():
            if key in self._changed:
                continue
            if entry == _DELETED:
                domain, path, name = key.split("|", 2)
                self._remove(domain, (path, name))
            elif entry != self._entry(key):  # what is known keeps its place in the order
                self._store(_decode(entry))

    def _matching(self, url: str, session: str) -> list[Cookie]:
        """Those to send to ``url``, in the order of RFC 6265, 5.4: longer paths first."""
        found: list[Cookie] = []
        secure, path, now = url.startswith("https:"), _path(url), time.time()
        for domain in _domains_of(hostname_of(url)):
            domain = _domain_in(session, domain)
            cookies = self._domains.get(domain)
            if cookies is None:
                continue
            self._domains[domain] = self._domains.pop(domain)
            for cookie in cookies.values():
                if (
                    (secure or not cookie.secure)
                    and not cookie.is_expired(now)  # type: ignore[arg-type]
                    and _path_matches(path, cookie.path)
                ):
                    found.append(cookie)
        found.sort(key=lambda cookie: -len(cookie.path))
        return found

    def _put(self, cookie: Cookie) -> bool:
        """Of an answer. True when that changed something."""
        before = self._domains.get(cookie.domain, {}).get((cookie.path, cookie.name))
        if before is not None and _encode(before) == _encode(cookie):
            return False
        self._changed.setdefault(_key(cookie), before is None)
        self._store(cookie)
        return True

    def _delete(self, cookie: Cookie) -> bool:
        removed = self._remove(cookie.domain, (cookie.path, cookie.name))
        if removed:
            self._changed[_key(cookie)] = False
        return removed

    def _store(self, cookie: Cookie) -> None:
        path = (cookie.path, cookie.name)
        self._remove(cookie.domain, path)  # to be the last
        cookies = self._domains.pop(cookie.domain, {})
        self._domains[cookie.domain] = cookies
        cookies[path] = cookie
        self._size += 1
        while len(cookies) > MAX_PER_DOMAIN:
            over = (old for old in cookies.values() if old.is_expired())
            self._drop(next(over, None) or next(iter(cookies.values())))
        while self._size > MAX_COOKIES:
            for old in [*next(iter(self._domains.values())).values()]:
                self._drop(old)

    def _drop(self, cookie: Cookie) -> None:
        """There is no room for it. Others are told."""
        self._remove(cookie.domain, (cookie.path, cookie.name))
        if not self._changed.pop(_key(cookie), False):
            self._changed[_key(cookie)] = False
        if not self.dropped:
            log.warning(
                "old cookies are dropped from here on, of %s first: a task keeps %d of a domain "
                "and %d in all",
                cookie.domain,
                MAX_PER_DOMAIN,
                MAX_COOKIES,
            )
        self.dropped += 1

    def _remove(self, domain: str, path: _Path) -> bool:
        cookies = self._domains.get(domain, {})
        if cookies.pop(path, None) is None:
            return False
        self._size -= 1
        if not cookies:
            del self._domains[domain]
        return True

    def _entry(self, key: str) -> str:
        domain, path, name = key.split("|", 2)
        cookie = self._domains.get(domain, {}).get((path, name))
        return _DELETED if cookie is None else _encode(cookie)


def own_header(url: str, cookies: Mapping[str, str]) -> str:
    """The Cookie header of a request's own cookies. Raises BadRequest when it is too long."""
    header = "; ".join(f"{name}={value}" for name, value in cookies.items())
    if len(header) > MAX_HEADER or len(header.encode()) > MAX_HEADER:
        raise BadRequest(
            f"request {url}: its cookies make {len(header.encode())} bytes, the limit is "
            f"{MAX_HEADER}"
        )
    return header


class _Parser(CookieJar):
    """Reads Set-Cookie headers; keeps nothing."""

    def __init__(self) -> None:
        super().__init__(DefaultCookiePolicy())
        self._found: list[Cookie] = []

    def parse(self, text: str, asked: UrlRequest) -> list[Cookie]:
        """The cookies of a header, at most one; one that deletes is expired."""
        self._found = []
        return [*self.make_cookies(_Given(text), asked), *self._found]  # type: ignore[arg-type]

    def clear(
        self, domain: str | None = None, path: str | None = None, name: str | None = None
    ) -> None:
        """Called by ``make_cookies`` for a cookie that is expired, in place of returning it."""
        dotted = (domain or "").startswith(".")
        fields = [name, "", domain, dotted, dotted, path, True, True, 0]
        self._found.append(_decode(orjson.dumps(fields).decode()))


class _Given:
    """What http.cookiejar wants to know of an answer."""

    def __init__(self, set_cookie: str) -> None:
        self._set_cookie = set_cookie

    def info(self) -> _Given:
        return self

    def get_all(self, name: str, default: Any = None) -> Any:
        return [self._set_cookie] if name.lower() == "set-cookie" else default


def _accept(cookie: Cookie, host: str, secure: bool) -> bool:
    """Whether ``host`` may set it, in an answer that came encrypted (``secure``) or not. Sets the
    domain to the one that counts."""
    name, value = cookie.name, cookie.value or ""
    if len(name) + len(value) > MAX_COOKIE or (cookie.secure and not secure):
        return False
    label = (name or value).lower()
    if label.startswith(("__secure-", "__host-")) and not cookie.secure:
        return False
    if label.startswith("__host-") and (cookie.domain_specified or cookie.path != "/"):
        return False
    domain = cookie.domain.removeprefix(".").lower()
    if cookie.expires is not None:
        cookie.expires = min(cookie.expires, int(time.time()) + MAX_AGE)
    if not cookie.domain_specified or not domain:
        cookie.domain, cookie.domain_specified = host, False
    elif _is_address(host) or is_public_suffix(domain):
        cookie.domain, cookie.domain_specified = host, False
        return domain == host
    else:
        cookie.domain = f".{domain}"
        return f".{host}".endswith(cookie.domain)
    return True


def _is_address(host: str) -> bool:
    return host.endswith("]") or host.rpartition(".")[2].isdigit()


@lru_cache(maxsize=4096)
def is_public_suffix(domain: str) -> bool:
    """Is it a domain below which strangers have theirs, such as co.uk and github.io? By the Public
    Suffix List, private section included; a domain of one label always is."""
    return "." not in domain or _suffixes().is_public(domain)


@lru_cache(maxsize=1)
def _suffixes() -> Any:
    # Imported here: most crawls need it never, and it takes time and memory.
    from publicsuffixlist import PublicSuffixList

    return PublicSuffixList()


def _domains_of(host: str) -> Iterator[str]:
    """The domains whose cookies are sent to ``host``."""
    yield host
    if _is_address(host):
        return
    while host:
        yield f".{host}"
        host = host.partition(".")[2]


def _domain_in(session: str, domain: str) -> str:
    return f"{session}/{domain}" if session else domain


def _path(url: str) -> str:
    start = url.find("/", 8)
    return url[start:].partition("?")[0]


def _path_matches(asked: str, path: str) -> bool:
    return asked.startswith(path) and (
        len(asked) == len(path) or path.endswith("/") or asked[len(path)] == "/"
    )


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
