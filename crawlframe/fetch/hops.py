"""What may be sent to the target of a redirect, and how its URL is read."""

from __future__ import annotations

from collections.abc import Mapping

from crawlframe.links import host_of

OF_ONE_HOST = frozenset({"authorization", "cookie", "host", "proxy-authorization"})
OF_A_BODY = frozenset({"content-type", "content-encoding", "content-language", "content-length",
                       "content-location", "transfer-encoding"})  # fmt: skip


def without(headers: Mapping[str, str], names: frozenset[str]) -> Mapping[str, str]:
    """The headers without those of these names."""
    return {name: value for name, value in headers.items() if name.lower() not in names}


def same_host(url: str, target: str) -> bool:
    """Whether the target may receive what was meant for the first one: not if it is unencrypted."""
    downgraded = url.startswith("https:") and target.startswith("http:")
    return host_of(url) == host_of(target) and not downgraded


def readable(location: str) -> str:
    """Header bytes are read as Latin-1; servers that send more than ASCII mean UTF-8."""
    if location.isascii():
        return location
    try:
        return location.encode("latin-1").decode()
    except UnicodeError:
        return location
