"""Identity: the headers that a process adds to each request, to identify us: a signature, and the
credentials of the host. Innermost, so that no middleware, row or log sees it.

Contact: the operator of this crawler, as the default User-Agent names it, and whether a site needs
to know."""

from __future__ import annotations

import ipaddress
import re
import time
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import urlsplit

from multidict import CIMultiDict

import crawlframe
from crawlframe.base.bounded_dict import BoundedDict
from crawlframe.base.urls import host_of, target_of
from crawlframe.errors import ConfigError
from crawlframe.identity.credentials import DIGEST, Credential, Credentials
from crawlframe.identity.digest import Challenge
from crawlframe.identity.signing import Headers, Signer, SigningKey, authority_of

VARIABLE = "CRAWLFRAME_CONTACT"
LENGTH = 200  # characters
_MAIL = re.compile(r"[\w.!#$%&'*+/=?^`{|}~-]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+", re.ASCII)
# Top-level names that the public internet does not have (RFC 2606, RFC 6761, RFC 6762, RFC 8375).
_SPECIAL = (".localhost", ".local", ".test", ".example", ".invalid", ".internal", ".home.arpa")
NAMELESS = (
    f"the crawled sites cannot identify the crawler: set {VARIABLE} to the URL of a "
    "page about this crawler or to a mail address, and it becomes part of the User-Agent"
)
MAX_CHALLENGES = 1000  # hosts whose latest digest challenge is remembered


class Papers(NamedTuple):
    """Our identity in the database: keys that sign now or later, and credentials."""

    keys: tuple[SigningKey, ...] = ()
    credentials: tuple[Credential, ...] = ()


class Identity:
    """``agent`` is the URL of the directory of our keys; "": nothing is signed. ``clock`` returns
    seconds since the epoch."""

    def __init__(self, agent: str = "", clock: Callable[[], float] = time.time) -> None:
        self._agent = agent
        self._clock = clock
        self._papers: Papers | None = None
        self._signer: Signer | None = None
        self._credentials: Credentials | None = None
        self._challenges: BoundedDict[str, Challenge] = BoundedDict(MAX_CHALLENGES)

    @property
    def is_loaded(self) -> bool:
        return self._papers is not None

    @property
    def is_plain(self) -> bool:
        """Whether nothing is to be added to any request."""
        return self._signer is None and self._credentials is None

    def load(self, papers: Papers) -> None:
        """Uses these keys and credentials from the next transfer on."""
        if papers == self._papers:
            return
        self._papers = papers
        self._signer = Signer(self._agent, papers.keys) if self._agent else None
        self._credentials = Credentials(papers.credentials) if papers.credentials else None
        self._challenges.clear()

    def headers_for(self, url: str, method: str, headers: Sequence[tuple[str, str]]) -> Headers:
        """Headers to add to ``headers`` of a transfer. Headers that the spider sets stay."""
        added: Headers = []
        if self._credentials is not None:
            login = self._credentials.find(url)
            if login is not None and not _has_authorization(headers):
                value = self._authorization(login, url, method)
                added += [("Authorization", value)] * bool(value)
        if self._signer is not None:
            added += self._signer.sign(authority_of(url, headers), self._clock())
        return added

    def is_challenged(self, url: str, answer: CIMultiDict[str], sent: str) -> bool:
        """Whether a response 401 asks for a digest that the same request can answer, sent again.
        ``sent``: the Authorization header it had."""
        login = self._credentials.find(url) if self._credentials is not None else None
        if login is None or login.scheme != DIGEST:
            return False
        challenge = Challenge.best(answer.getall("WWW-Authenticate", []))
        if challenge is None or f'nonce="{challenge.nonce}"' in sent:
            return False
        self._challenges[host_of(url)] = challenge
        return True

    def _authorization(self, login: Credential, url: str, method: str) -> str:
        if login.scheme != DIGEST:
            return login.authorization()
        challenge = self._challenges.get(host_of(url))
        if challenge is None:
            return ""  # the first answer has it
        return challenge.answer(method, target_of(url), login.user, login.secret.reveal())


def _has_authorization(headers: Sequence[tuple[str, str]]) -> bool:
    return any(name.lower() == "authorization" for name, _ in headers)


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
    """A User-Agent such as ``crawlframe/1.0 (+https://www.example.com/crawler)``."""
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
        """A warning because of these hosts, once; "" before, afterwards, and if sites can identify
        us."""
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
