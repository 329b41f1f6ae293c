"""Tls: how the certificate of a host is verified, and why one was refused."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from types import MappingProxyType

import certifi
import msgspec

from crawlframe.base.urls import host_of, hostname_of
from crawlframe.errors import CrawlframeError
from crawlframe.identity.credentials import check_host

ALL = "*"  # in place of a host

# The setting tls of the spider whose request runs: it counts for the site files of hosts, too.
OF_TASK: ContextVar[Mapping[str, Tls]] = ContextVar("tls", default=MappingProxyType({}))

# OpenSSL's words, and their meaning.
_CAUSES = {
    "has expired": "it has expired",
    "not yet valid": "it is not valid yet",
    "match": "it is for another name",  # of a host or an address
    "self-signed": "its issuer is unknown",
    "self signed": "its issuer is unknown",
    "local issuer": "its issuer is unknown, or the server does not send the certificate of one "
    "between the two (an incomplete chain)",
}


def usual_ca() -> str:
    """The file with the issuers that are trusted for all hosts and proxies."""
    return os.environ.get("SSL_CERT_FILE") or certifi.where()


class Tls(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """TLS settings of a host. ``ca``, ``cert`` and ``key`` are files in PEM on the nodes: the
    issuers that are trusted in place of the usual ones, our certificate, and its key if that is not
    in the same file. ``verify`` False: any certificate will do, also that of an attacker."""

    verify: bool = True
    ca: str = ""
    cert: str = ""
    key: str = ""

    def __post_init__(self) -> None:
        if self.key and not self.cert:
            raise ValueError("tls: key needs cert, the certificate that it belongs to")
        if self.ca and not self.verify:
            raise ValueError("tls: ca and verify = False do not fit; leave one of the two out")


def check_tls(known: Mapping[str, Tls]) -> None:
    """Raises ValueError unless all keys are hosts, ``*.domain`` or ALL."""
    for host in known:
        try:
            right = ALL if host == ALL else check_host(host)
        except CrawlframeError as error:
            raise ValueError(f"tls: {error}; or * for all hosts") from None
        if right != host:
            raise ValueError(f"tls: write {right!r} in place of {host!r}")


def tls_of(known: Mapping[str, Tls], url: str) -> Tls | None:
    """The most exact settings for a URL; None: the usual verification."""
    return next((known[one] for one in _names(url) if one in known), None) if known else None


def _names(url: str) -> Iterator[str]:
    yield host_of(url)
    yield (name := hostname_of(url))
    while "." in name:
        name = name.partition(".")[2]
        yield f"*.{name}"
    yield ALL


def refusal_of(detail: str) -> str:
    """Why a certificate was refused, in words before OpenSSL's."""
    cause = next((cause for words, cause in _CAUSES.items() if words in detail), "")
    return f"the certificate is refused: {cause}: {detail}" if cause else detail
