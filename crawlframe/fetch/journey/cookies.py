"""TaskCookies: the cookies of one task in one process, in a form that can be shared."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from crawlframe.base.urls import hostname_of, is_address
from crawlframe.errors import BadRequest
from crawlframe.fetch.journey.set_cookie import Cookie, path_of, read_cookies

# RFC 6265, 6.1, asks for at least 50 cookies per domain and 3000 in all.
MAX_PER_DOMAIN = 50
MAX_COOKIES = 3000  # per task
MAX_HEADER = 8192  # bytes of the Cookie header; servers refuse larger ones
_DELETED = ""

log = logging.getLogger(__name__)

_Path = tuple[str, str]  # path and name: unique within a domain


class TaskCookies:
    """Keeps and sends cookies by RFC 6265 and its successor (draft-ietf-httpbis-rfc6265bis).

    A domain has at most MAX_PER_DOMAIN cookies: the least recently set are dropped first. Above
    MAX_COOKIES in all, the least recently used domains are dropped. Use it from one thread only.

    Each named session has a jar of its own, "" belongs to all other requests; the limits hold for
    all of them together.

    Shared as plain text entries, ``domain|path|name`` -> JSON; an empty entry deletes. The frontier
    checks their form. A domain with a leading dot includes its subdomains. In a session, ``domain``
    is ``session/domain``, which is no host: a process that does not know sessions never sends such
    a cookie."""

    def __init__(self) -> None:
        self.dropped = 0  # cookies dropped because of the limits
        self._domains: dict[str, dict[_Path, Cookie]] = {}  # least recently used first
        self._size = 0
        self._changed: dict[str, bool] = {}  # key -> whether it is new, and unknown elsewhere
        self._swept = 0  # the value passed to ``load`` last

    def header_for(
        self, url: str, extra: Mapping[str, str] | None = None, session: str = ""
    ) -> str | None:
        """The Cookie header for a request, at most MAX_HEADER bytes; cookies of ``extra`` win over
        cookies of the jar. Raises BadRequest when ``extra`` alone is larger."""
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
        """Stores the Set-Cookie headers of a response. Returns whether anything changed."""
        changed, secure = False, url.startswith("https:")
        for cookie in read_cookies(url, set_cookies):
            cookie.domain = _domain_in(session, cookie.domain)
            if secure or not self._hides_secure(cookie):
                changed |= self._delete(cookie) if cookie.is_expired() else self._put(cookie)
        return changed

    def forget(self, session: str) -> None:
        """Deletes the cookies of a session, in other processes too."""
        for domain in [one for one in self._domains if one.startswith(f"{session}/")]:
            for cookie in [*self._domains[domain].values()]:
                self._delete(cookie)

    def related(self, url: str, session: str = "") -> list[Cookie]:
        """Cookies of the host of ``url``, of the domains around it and of the hosts below it."""
        host = _domain_in(session, hostname_of(url))
        return [
            cookie
            for domain, cookies in self._domains.items()
            if _related(domain, host)
            for cookie in cookies.values()
            if not cookie.is_expired()
        ]

    def changes(self) -> dict[str, str]:
        """The entries that changed here since the last call, to be shared with other processes."""
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

    def load(self, entries: Mapping[str, str], swept: int = 0) -> None:
        """Takes the entries of all processes; changes made here and not shared yet are kept.

        ``swept`` changes whenever empty entries have been dropped: cookies missing then are
        deleted. (A cookie that was shared but has not arrived is missing too; the next load
        restores it.)"""
        if swept != self._swept:
            self._swept = swept
            for cookie in [one for cookies in self._domains.values() for one in cookies.values()]:
                if (key := _key(cookie)) not in entries and key not in self._changed:
                    self._remove(cookie.domain, (cookie.path, cookie.name))
        for key, entry in entries.items():
            if key in self._changed:
                continue
            if entry == _DELETED:
                domain, path, name = key.split("|", 2)
                self._remove(domain, (path, name))
            elif entry != self._entry(key):  # a known entry keeps its place in the order
                self._store(msgspec.json.decode(entry, type=Cookie))

    def _matching(self, url: str, session: str) -> list[Cookie]:
        """The cookies to send to ``url``, in the order of RFC 6265, 5.4: longer paths first."""
        found: list[Cookie] = []
        secure, path, now = url.startswith("https:"), path_of(url), time.time()
        for domain in _domains_of(hostname_of(url)):
            domain = _domain_in(session, domain)
            cookies = self._domains.get(domain)
            if cookies is None:
                continue
            self._domains[domain] = self._domains.pop(domain)
            for cookie in cookies.values():
                if (
                    (secure or not cookie.secure)
                    and not cookie.is_expired(now)
                    and _path_matches(path, cookie.path)
                ):
                    found.append(cookie)
        found.sort(key=lambda cookie: -len(cookie.path))
        return found

    def _hides_secure(self, cookie: Cookie) -> bool:
        """Whether it would replace a secure cookie, or be sent in its place. Else anyone able to
        alter unencrypted traffic could forge those (rfc6265bis, "leave secure cookies alone")."""
        return any(
            old.secure
            and old.name == cookie.name
            and _path_matches(cookie.path, old.path)
            and not old.is_expired()
            for domain, cookies in self._domains.items()
            if _related(domain, cookie.domain)
            for old in cookies.values()
        )

    def _put(self, cookie: Cookie) -> bool:
        """Stores or deletes a cookie of a response. Returns whether anything changed."""
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
        self._remove(cookie.domain, path)  # so that it becomes the last
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
        """Removes a cookie for lack of room, in other processes too."""
        self._remove(cookie.domain, (cookie.path, cookie.name))
        if not self._changed.pop(_key(cookie), False):
            self._changed[_key(cookie)] = False
        if not self.dropped:
            log.warning(
                "old cookies are dropped from now on, those of %s first: a task keeps %d per "
                "domain and %d in all",
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
            f"request {url}: its cookies take {len(header.encode())} bytes, the limit is "
            f"{MAX_HEADER}"
        )
    return header


def _domains_of(host: str) -> Iterator[str]:
    """The domains whose cookies are sent to ``host``."""
    yield host
    if is_address(host):
        return
    while host:
        yield f".{host}"
        host = host.partition(".")[2]


def _domain_in(session: str, domain: str) -> str:
    return f"{session}/{domain}" if session else domain


def _related(domain: str, other: str) -> bool:
    """Whether one domain is the other, or below it, in the same session."""
    session, _, host = domain.rpartition("/")
    other_session, _, other_host = other.rpartition("/")
    mine, theirs = f".{host.removeprefix('.')}", f".{other_host.removeprefix('.')}"
    return session == other_session and (mine.endswith(theirs) or theirs.endswith(mine))


def _path_matches(asked: str, path: str) -> bool:
    return asked.startswith(path) and (
        len(asked) == len(path) or path.endswith("/") or asked[len(path)] == "/"
    )


def _key(cookie: Cookie) -> str:
    return f"{cookie.domain}|{cookie.path}|{cookie.name}"


def _encode(cookie: Cookie) -> str:
    return msgspec.json.encode(cookie).decode()
