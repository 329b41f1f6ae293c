"""Credentials: with which name and secret we log in to a host (HTTP authentication), and to which
requests that applies."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable
from typing import NamedTuple

from crawlframe.base.secret import Secret
from crawlframe.base.urls import host_of, hostname_of, normalise
from crawlframe.errors import CrawlframeError, FieldError

BASIC, DIGEST, BEARER = SCHEMES = ("basic", "digest", "bearer")
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # RFC 6750, 2.1


class BadCredential(FieldError):
    """A credential cannot be used: its host, user name or secret is wrong. ``field`` says which."""


class Credential(NamedTuple):
    """``host`` is a host as URLs name it, with its port if that is not the usual one, or
    ``*.domain`` for all hosts below one. ``http``: whether it is sent unencrypted, too."""

    host: str
    scheme: str
    user: str
    secret: Secret
    http: bool = False

    def authorization(self) -> str:
        """The value of the header; not for digest, which depends on the request."""
        if self.scheme == BEARER:
            return f"Bearer {self.secret.reveal()}"
        pair = f"{self.user}:{self.secret.reveal()}".encode()
        return f"Basic {b64encode(pair).decode()}"


class Credentials:
    """Credentials of hosts: a host wins over ``*.domain``, a longer domain over a shorter."""

    def __init__(self, known: Iterable[Credential]) -> None:
        self._exact: dict[str, Credential] = {}
        self._below: dict[str, Credential] = {}
        for one in known:
            if one.host.startswith("*."):
                self._below[one.host[2:]] = one
            else:
                self._exact[one.host] = one

    def find(self, url: str) -> Credential | None:
        """The credential for a request to this URL."""
        host = host_of(url)
        found = self._exact.get(host)
        if found is None and self._below and host == hostname_of(url):
            parent = host
            while found is None and "." in parent:
                parent = parent.partition(".")[2]
                found = self._below.get(parent)
        return found if found and (found.http or url.startswith("https:")) else None


def check_credential(host: str, scheme: str, user: str, secret: str) -> str:
    """Returns the host in the form of ``Credential``. Raises BadCredential."""
    if scheme not in SCHEMES:
        raise BadCredential("scheme", f"{scheme!r} is no scheme; give basic, digest or bearer")
    if scheme == BEARER and user:
        raise BadCredential("user", "a bearer token has no user name; leave it out")
    if scheme != BEARER and not user:
        raise BadCredential("user", f"{scheme} needs a user name")
    if not user.isprintable() or (":" in user and scheme == BASIC):
        raise BadCredential("user", "the user name has a colon or a control character")
    if scheme == BEARER and not _TOKEN.fullmatch(secret):
        raise BadCredential("secret", "a bearer token has letters, digits and -._~+/ only")
    if not secret or not secret.isprintable():
        raise BadCredential("secret", "the secret is empty, or has a control character")
    return check_host(host)


def check_host(host: str) -> str:
    """Returns the host as URLs name it. Raises BadCredential."""
    name = host.strip().lower()
    below = name.startswith("*.")
    wrong = BadCredential(
        "host",
        f"{host!r} is not a host; give one such as www.example.com, with its port if that is not "
        "the usual one, or *.example.com for all hosts below that domain",
    )
    bare = name[2:] if below else name
    if not bare or set(bare) & set("/?#@*\\ "):
        raise wrong
    try:
        found = host_of(normalise(f"https://{bare}/"))
        plain = host_of(normalise(f"http://{bare}/"))
    except CrawlframeError:
        raise wrong from None
    found = found if len(found) <= len(plain) else plain  # :443 and :80 are not part of a host
    if below and (":" in found or "." not in found or found[-1].isdigit()):
        raise wrong
    return f"*.{found}" if below else found
