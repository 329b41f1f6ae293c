"""Contact: who runs this crawler, in the words of the default User-Agent, and whether anybody out
there would want to know."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import urlsplit

import crawlframe
from crawlframe.errors import ConfigError

VARIABLE = "CRAWLFRAME_CONTACT"
LENGTH = 200  # characters

_MAIL = re.compile(r"[\w.!#$%&'*+/=?^`{|}~-]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+", re.ASCII)
# Top-level names that the public internet does not have (RFC 2606, RFC 6761, RFC 6762, RFC 8375).
_SPECIAL = (".localhost", ".local", ".test", ".example", ".invalid", ".internal", ".home.arpa")
NAMELESS = (
    f"the sites that are crawled cannot tell who is crawling them: set {VARIABLE} to the URL of a "
    "page about this crawler or to a mail address, and it becomes part of the User-Agent"
)


def check_contact(text: str) -> str:
    """Returns the contact as the User-Agent names it. Raises ConfigError if it is neither a URL nor
    a mail address."""
    if text == "" or _is_url(text) or _MAIL.fullmatch(text):
        return text
    raise ConfigError(
        f"{VARIABLE}={text!r} must be the URL of a page about this crawler, such as "
        "https://www.example.com/crawler, or a mail address, such as crawler@example.com"
    )


def default_user_agent(contact: str) -> str:
    """Such as ``crawlframe/1.0 (+https://www.example.com/crawler)``."""
    name = f"crawlframe/{crawlframe.__version__}"
    return f"{name} (+{contact})" if contact else name


@lru_cache(maxsize=1024)  # each claim asks it of each request
def is_public(host: str) -> bool:
    """Whether a host, with or without its port, is one of the public internet, by its name."""
    name = host.rpartition(":")[0] if re.search(r":\d+$", host) else host
    try:
        return ipaddress.ip_address(name.strip("[]")).is_global
    except ValueError:
        return "." in name.rstrip(".") and not name.rstrip(".").endswith(_SPECIAL)


class Introduction:
    """Notices the first public host that is crawled without a contact."""

    def __init__(self, user_agent: str) -> None:
        self._due = user_agent == default_user_agent("")

    def missing_for(self, hosts: Iterable[str]) -> str:
        """What to warn of because of these hosts, once; "" before, afterwards, and if sites can
        tell who we are."""
        if not self._due or not any(map(is_public, hosts)):
            return ""
        self._due = False
        return NAMELESS


def _is_url(text: str) -> bool:
    # A parenthesis would end the comment that the User-Agent has it in.
    if not text.isascii() or not text.isprintable() or set(text) & set(' ()<>"\\'):
        return False
    try:
        parts = urlsplit(text)
        named = bool(parts.hostname) and "." in str(parts.hostname)
    except ValueError:
        return False
    return named and parts.scheme in ("http", "https") and len(text) <= LENGTH and "@" not in text
