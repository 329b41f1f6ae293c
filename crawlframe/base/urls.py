"""Parsing, joining and canonicalising URLs by the WHATWG rules (can_ada), as browsers do."""

from __future__ import annotations

import re
import string
from base64 import b64encode
from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import unquote_to_bytes

import can_ada

from crawlframe.base.secret import without_logins
from crawlframe.errors import BadRequest

# Escapes that are not as RFC 3986, 6.2.2 wants them: of unreserved characters (2.3), and those with
# lower-case digits. Most URLs have none, and this finds that out at the speed of C.
_ESCAPE = re.compile(
    r"%(?:2[DEde]|3[0-9]|4[1-9A-Fa-f]|5[0-9AFaf]|6[1-9A-Fa-f]|7[0-9AEae]"
    r"|[0-9A-Fa-f][a-f]|[a-f][0-9A-F])"
)
_BEYOND_ASCII = re.compile("[\x80-\xff]")
_UNRESERVED = frozenset(string.ascii_letters + string.digits + "-._~")

_LOGIN = re.compile(r"(?<=^http://)[^/]*@|(?<=^https://)[^/]*@")

# The links of a page are joined one after another to the same base.
_parsed = lru_cache(maxsize=64)(can_ada.parse)


def normalise(url: str) -> str:
    """Return the absolute http(s) URL as a browser would send it, without user and password, which
    are not sent in URLs, and without its fragment.

    Raises BadRequest if it is not such a URL."""
    try:
        parsed = can_ada.parse(url)
    except (ValueError, TypeError):  # TypeError: a lone surrogate, which has no UTF-8 form
        raise BadRequest(
            f"{without_logins(repr(url))} is not an absolute URL; give one such as "
            "https://example.com/page"
        ) from None
    if parsed.protocol not in ("http:", "https:"):
        shown = without_logins(repr(url))
        raise BadRequest(f"{shown} has the scheme {parsed.protocol[:-1]!r}; use http or https")
    href: str = without_login(parsed.href)
    cut = href.find("#")
    return href if cut < 0 else href[:cut]


def without_login(url: str) -> str:
    """Return a normalised URL without user and password."""
    return _LOGIN.sub("", url) if "@" in url else url


def login_of(url: str) -> str:
    """Return the Authorization header (RFC 7617) of user and password in a URL that ``normalise``
    takes; "": it has none."""
    parsed = can_ada.parse(url)
    login = b":".join(map(unquote_to_bytes, (parsed.username, parsed.password)))
    return f"Basic {b64encode(login).decode()}" if login != b":" else ""


def fragment_of(url: str) -> str:
    """Return the fragment of a URL that ``normalise`` takes, as a browser has it, with ``#``; ""
    without one."""
    return str(can_ada.parse(url).hash) if "#" in url else ""


def join(base: str, link: str) -> str | None:
    """Return ``link`` on the page ``base`` as an absolute URL without fragment, normalised but for
    user and password; None if it is not http(s) (``mailto:``, ``javascript:``, unparsable)."""
    return join_all(base, (link,))[0]


def join_all(base: str, links: Iterable[str]) -> list[str | None]:
    """Return ``join`` of each, in less time."""
    urls: list[str | None] = []
    try:
        parsed = _parsed(base)
    except (ValueError, TypeError):
        return [None for _ in links]
    for link in links:
        try:
            href: str = (parsed + link).href
        except (ValueError, TypeError):  # TypeError: a lone surrogate, which has no UTF-8 form
            href = ""
        if href[:7] != "http://" and href[:8] != "https://":
            urls.append(None)
        else:
            urls.append(href if "#" not in href else href[: href.index("#")])
    return urls


def escaped(link: str) -> str:
    """Return a link from a header, which was read as Latin-1, with all bytes beyond ASCII escaped,
    as browsers do: it may be in UTF-8 or in any other encoding."""
    return _BEYOND_ASCII.sub(lambda byte: f"%{ord(byte[0]):02X}", link)


def canonical(url: str) -> str:
    """Return the form for comparing two normalised URLs: percent-encoding by RFC 3986, 6.2.2, query
    parts sorted, no empty ones. It is not the URL that is sent: to some servers ``%7E`` is not
    ``~``."""
    if "%" in url:
        url = _ESCAPE.sub(_same_escape, url)
    if "?" not in url:
        return url
    start = url.index("?")
    query = url[start + 1 :]
    if not query:
        return url[:start]
    if "&" not in query:
        return url
    parts = sorted(part for part in query.split("&") if part)
    return url[: start + 1] + "&".join(parts) if parts else url[:start]


def _same_escape(escape: re.Match[str]) -> str:
    """Return the character if it is unreserved, otherwise the escape with upper-case digits."""
    character = chr(int(escape[0][1:], 16))
    return character if character in _UNRESERVED else escape[0].upper()


def host_of(url: str) -> str:
    """Return ``host`` or ``host:port`` of a normalised URL: the unit of politeness."""
    host = url.split("/", 3)[2]
    return host if "@" not in host else host[host.rindex("@") + 1 :]


def hostname_of(url: str) -> str:
    """Return the host of a normalised URL without its port."""
    return without_port(host_of(url))


def without_port(host: str) -> str:
    """Return ``host`` of ``host:port``; an IPv6 address is in brackets."""
    if host.endswith("]"):
        return host
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() else host


def target_of(url: str) -> str:
    """Return path and query of a normalised URL, as a request line has them."""
    return "/" + url.split("/", 3)[3]


def is_within(hostname: str, domains: Iterable[str]) -> bool:
    """Return whether the host is one of the domains, in lower case, or below one."""
    return any(hostname == domain or hostname.endswith("." + domain) for domain in domains)


def is_address(host: str) -> bool:
    """Whether the host is an IP address, not a name."""
    return host.endswith("]") or host.rpartition(".")[2].isdigit()
