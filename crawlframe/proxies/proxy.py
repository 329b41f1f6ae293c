"""Proxy: one proxy as the downloaders use it, with its credentials."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote

from crawlframe.base.secret import MASK, Secret
from crawlframe.proxies.selector import ProxyAddress, check_address

FIXED = 0  # in place of an id: named by a spider, not one of the pool


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
