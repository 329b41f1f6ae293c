"""Sent: the method, body, headers and cookies that are sent for a request or a redirect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from crawlframe.base.urls import host_of
from crawlframe.request.record import Hop

OF_ONE_HOST = frozenset({"authorization", "cookie", "host", "proxy-authorization"})
OF_A_BODY = frozenset({"content-type", "content-encoding", "content-language", "content-length",
                        "content-location", "transfer-encoding"})  # fmt: skip


class Sent(NamedTuple):
    """The parts of a request, or of one of its redirects, that are sent."""

    url: str
    method: str
    body: bytes | None
    headers: Mapping[str, str]
    cookies: Mapping[str, str]  # the request's own

    def after(self, hop: Hop) -> Sent:
        """The parts that are sent to the target of a redirect: GET without a body where browsers do
        that, and no header or cookie for this host to another."""
        _, method, body, headers, cookies = self
        status, target = hop
        if (status in (301, 302) and method == "POST") or (
            status == 303 and method not in ("GET", "HEAD")
        ):
            method, body, headers = "GET", None, without(headers, OF_A_BODY)
        if not same_host(self.url, target):
            headers, cookies = without(headers, OF_ONE_HOST), {}
        return Sent(target, method, body, headers, cookies)


def without(headers: Mapping[str, str], names: frozenset[str]) -> Mapping[str, str]:
    """The headers except these names."""
    return {name: value for name, value in headers.items() if name.lower() not in names}


def same_host(url: str, target: str) -> bool:
    """Whether the target may receive secrets of the first host: not if it is unencrypted."""
    downgraded = url.startswith("https:") and target.startswith("http:")
    return host_of(url) == host_of(target) and not downgraded
