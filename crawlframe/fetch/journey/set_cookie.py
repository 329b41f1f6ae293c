"""Set-Cookie: the cookies a response may set, by RFC 6265 and its successor
(draft-ietf-httpbis-rfc6265bis)."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from urllib.parse import quote

import msgspec

from crawlframe.base.public_suffixes import suffix_list
from crawlframe.base.urls import escaped, hostname_of, is_address

MAX_COOKIE = 4096  # bytes of name and value, as RFC 6265, 6.1, asks for
MAX_AGE = 400 * 86400  # seconds, as its successor says
MAX_SET_COOKIE = 8192  # characters, attributes included
_PATH = "%/;:@&=+$,!~*'()"  # characters that are not escaped in a path
_SECONDS = re.compile("-?[0-9]+")
_DELIMITERS = re.compile(r"[\t\x20-\x2f\x3b-\x40\x5b-\x60\x7b-\x7e]+")
_MONTHS = "janfebmaraprmayjunjulaugsepoctnovdec"
# In the order of the attempts at a part of a date.
_DATE = {
    "time": re.compile(r"([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?![0-9])"),
    "day": re.compile(r"([0-9]{1,2})(?![0-9])"),
    "month": re.compile(f"({'|'.join(re.findall('...', _MONTHS))})", re.I),
    "year": re.compile(r"([0-9]{2,4})(?![0-9])"),
}


class Cookie(msgspec.Struct, array_like=True):
    """A cookie; ``expires`` is a Unix time. The order of the fields is that of shared entries."""

    name: str
    value: str | None
    domain: str
    domain_specified: bool
    domain_initial_dot: bool
    path: str
    path_specified: bool
    secure: bool
    expires: int | None

    def is_expired(self, now: float | None = None) -> bool:
        """``now``: a Unix time, the present if it is None."""
        return self.expires is not None and self.expires <= (time.time() if now is None else now)


def path_of(url: str) -> str:
    """The path of an http URL, without its query."""
    start = url.find("/", 8)
    return url[start:].partition("?")[0]


def read_cookies(url: str, set_cookies: Iterable[str]) -> Iterator[Cookie]:
    """The cookies that a response of ``url`` may set, or delete: those are expired."""
    for text in set_cookies:
        cookie = _cookie_in(text) if len(text) <= MAX_SET_COOKIE else None
        if cookie is not None and _accept(cookie, url):
            yield cookie


def _cookie_in(text: str) -> Cookie | None:
    """RFC 6265, 5.2: of each attribute the last valid one counts."""
    pair, *rest = text.split(";")
    name, equals, value = (part.strip(" \t") for part in pair.partition("="))
    if not name:
        return None
    expires: int | None = None
    ends: int | None = None  # by Max-Age
    found: dict[str, str] = {}
    for attribute in rest:
        key, _, given = attribute.partition("=")
        key, given = key.strip().lower(), given.strip()
        found[key] = given
        if key == "expires":
            expires = _time_of(given, expires)
        elif key == "max-age" and _SECONDS.fullmatch(given):
            seconds = int(given[:12])
            ends = int(time.time()) + seconds if seconds > 0 else 0
    expires = expires if ends is None else ends
    # Marked as secure, one that deletes may have any prefix.
    secure = "secure" in found or (expires is not None and expires <= time.time())
    domain, path = found.get("domain", "").lower(), quote(escaped(found.get("path", "")), _PATH)
    return Cookie(
        *(name, value if equals else None, domain, "domain" in found, domain.startswith(".")),
        *(path, bool(path), secure, expires),
    )


def _time_of(text: str, other: int | None) -> int | None:
    """The Unix time of a date in any of the forms of RFC 6265, 5.1.1; else the other one."""
    found: dict[str, re.Match[str]] = {}
    for token in _DELIMITERS.split(text):
        for field, form in _DATE.items():
            if field not in found and (match := form.match(token)):
                found[field] = match
                break
    if len(found) < len(_DATE):
        return other
    year, day = int(found["year"][1]), int(found["day"][1])
    year += 1900 if 70 <= year <= 99 else 2000 if year < 70 else 0
    month = _MONTHS.index(found["month"][1].lower()) // 3 + 1
    try:
        hour, minute, second = map(int, found["time"].groups())
        moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return other
    return int(moment.timestamp()) if year >= 1601 else other


def _accept(cookie: Cookie, url: str) -> bool:
    """Whether a response of ``url`` may set or delete the cookie. Sets its domain and path to the
    effective ones."""
    name, value, host = cookie.name, cookie.value or "", hostname_of(url)
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


@lru_cache(maxsize=4096)
def is_public_suffix(domain: str) -> bool:
    """Whether strangers have domains below this one, as with co.uk and github.io: by the Public
    Suffix List, private section included. A domain of one label always counts."""
    return "." not in domain or suffix_list().is_public(domain)
