"""Proxies: one as the downloaders use it, with its credentials, and the item with which a spider
names one for the pool."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import quote, unquote

from crawlframe.base.secret import MASK, Secret
from crawlframe.errors import SpiderError
from crawlframe.proxies.selector import (
    MOST_TIER,
    ProxyAddress,
    check_address,
    check_country,
    check_tag,
)

FIXED = 0  # in place of an id: named by a spider, not one of the pool
MOST_IN_FLIGHT = 1_000_000
MOST_OF_PAGE = 10_000
_UNSAFE = re.compile(r"[\0\ud800-\udfff\ufffd]")  # the last stood for bytes that are no UTF-8


class ChosenProxy(NamedTuple):
    """A proxy for a transfer. ``id``: of the pool, or FIXED. ``username`` and ``password`` are ""
    without credentials. Its text does not show them. ``found``: a spider has found it on a page."""

    id: int
    scheme: str  # http, https, socks5 (names are resolved here) or socks5h (there)
    host: str
    port: int
    username: str = ""
    password: Secret = Secret("")
    found: bool = False

    @property
    def url(self) -> str:
        """The URL without credentials."""
        return ProxyAddress(self.scheme, self.host, self.port).url

    @property
    def full_url(self) -> str:
        """The URL with the credentials, for a client. It must not be shown."""
        scheme, _, place = self.url.partition("://")
        if not self.username:
            return self.url
        login = ":".join(quote(text, safe="") for text in (self.username, self.password.reveal()))
        return f"{scheme}://{login}@{place}"

    @property
    def of_pool(self) -> bool:
        """Whether it is one of the pool."""
        return self.id != FIXED

    @property
    def trusted(self) -> bool:
        """Whether operators have entered it: it may have a private address."""
        return self.of_pool and not self.found

    @property
    def resolves(self) -> bool:
        """Whether the proxy resolves the names of hosts."""
        return self.scheme != "socks5"

    def __repr__(self) -> str:
        return f"Proxy({self.id}, {self.url!r}{f', {MASK}' if self.username else ''})"


def fixed_proxy(url: str) -> ChosenProxy:
    """The proxy that a spider names by its URL. Raises ValueError."""
    return ChosenProxy(FIXED, *check_address(url))


class Written(NamedTuple):
    """A proxy as it is written in a list. ``url`` is without credentials."""

    url: str
    user: str
    password: str


class Proxy:
    """An item of a spider that a proxy list of the pool names. It is never stored with the other
    items: it goes into the pool, in the transaction of its page, and is checked before it is used.

    ``text`` is ``[scheme://][user:password@]host:port`` or ``host:port:user:password``. Values that
    are not given are as the list says; ``tags`` are in addition to the list's. Raises ValueError,
    whose message shows no credentials."""

    __slots__ = ("country", "max_concurrency", "password", "tags", "tier", "url", "username")

    def __init__(
        self,
        text: str,
        *,
        tier: int | None = None,
        tags: Iterable[str] = (),
        country: str = "",
        max_concurrency: int | None = None,
        scheme: str = "http",
    ) -> None:
        if not isinstance(text, str):
            raise ValueError(f"a Proxy is made of text, not of {type(text).__name__}")
        if isinstance(tags, str):
            raise ValueError(f"the tags of a proxy are a list of words, not {tags!r}")
        written = read_text(text, scheme)
        self.url = written.url
        self.username = written.user
        self.password = Secret(written.password)
        self.tier = _number("tier", tier, MOST_TIER)
        self.tags = tuple(sorted({check_tag(tag) for tag in tags}))
        self.country = check_country(country) if country else ""
        self.max_concurrency = _number("max_concurrency", max_concurrency, MOST_IN_FLIGHT)

    def __repr__(self) -> str:
        return f"Proxy({self.url!r}{f', {MASK}' if self.username else ''})"


def with_proxy(found: list[Proxy] | None, proxy: Proxy) -> list[Proxy]:
    """Proxies that a page has named, with one more. Raises SpiderError."""
    if found is None:
        return [proxy]
    if len(found) >= MOST_OF_PAGE:
        raise SpiderError(
            f"a page names more than {MOST_OF_PAGE:,} proxies; spread them over several requests"
        )
    found.append(proxy)
    return found


def read_text(text: str, scheme: str = "http") -> Written:
    """``scheme``: where none is written. Raises ValueError; the message shows nothing of the
    text."""
    given, separator, rest = text.strip().partition("://")
    if not separator:
        given, rest = scheme, text.strip()
    login, at, place = rest.rpartition("@")
    parts = place.split(":")
    if not at and len(parts) == 4 and not place.startswith("["):
        place, login = ":".join(parts[:2]), ":".join(parts[2:])
        user, _, password = login.partition(":")
    else:
        user, _, password = (unquote(part) for part in login.partition(":"))
    try:
        url = check_address(f"{given}://{place}").url
    except ValueError:  # its text may show a password
        raise ValueError(
            "is not scheme://user:password@host:port or host:port:user:password, with http, https, "
            "socks5 or socks5h and a port from 1 to 65535"
        ) from None
    if ":" in user:
        raise ValueError("the user name of a proxy must not have a colon")
    if _UNSAFE.search(user + password):
        raise ValueError(
            "the credentials of a proxy must be UTF-8, without the character U+0000; their escapes "
            "too, such as %C3%BC"
        )
    return Written(url, user, password)


def _number(name: str, value: int | None, most: int) -> int | None:
    if value is not None and (type(value) is not int or not 0 <= value <= most):
        raise ValueError(f"{name} of a proxy must be an int from 0 to {most:,}, not {value!r}")
    return value
