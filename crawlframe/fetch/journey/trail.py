"""Trail: the redirects that a request has followed, and the way along them."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import NamedTuple

from crawlframe.base.urls import host_of
from crawlframe.request.record import Hop
from crawlframe.request.request import Request
from crawlframe.response.response import Response

Check = Callable[[str], Awaitable[None]]  # of a URL that is about to be sent
OF_ONE_HOST = frozenset({"authorization", "cookie", "host", "proxy-authorization"})
OF_A_BODY = frozenset({"content-type", "content-encoding", "content-language", "content-length",
                        "content-location", "transfer-encoding"})  # fmt: skip


class Redirected(BaseException):
    """A fetch with a trail ended with a redirect, which the trail has now. It is no Exception, so
    that a middleware that expects errors lets it pass."""


class Challenged(BaseException):
    """A fetch with a paced trail ended with a challenge that the same request can answer, sent
    again. It is no Exception, as Redirected."""


class Trail:
    """The redirects that a request has followed. A fetch adds one to them, if it is redirected.
    ``paced``: a challenge ends the fetch too, so that the answer waits for the host's delay."""

    def __init__(self, request: Request, hops: Iterable[Hop] = (), *, paced: bool = False) -> None:
        self.request = request
        self.hops = [*hops]
        self.paced = paced
        self.going: Check | None = None  # awaited before a page of the browser leads elsewhere
        self._begun = len(self.hops)

    async def follow(
        self,
        fetch: Callable[[Request], Awaitable[Response]],
        renew: Callable[[], Request] | None = None,
        redirected: Callable[[], Awaitable[None]] | None = None,
    ) -> Response:
        """Fetches the target of the last redirect, then of each further redirect. ``redirected`` is
        awaited before each of these. ``renew`` returns the request as it was first: the changes of
        a middleware are for one target. Raises errors of these functions."""
        first = self.request
        while True:
            self._begun = len(self.hops)
            try:
                response = await fetch(self.next_request())
                break
            except Redirected:
                if redirected is not None:
                    await redirected()
                if renew is not None:
                    self.request = renew()
        if self.hops:
            self.request = first if renew is None else renew()
            self.complete(response)
        return response

    def begin(self) -> None:
        """The same target is fetched, perhaps again: a redirect of the time before does not
        count."""
        del self.hops[self._begun :]

    @property
    def passed(self) -> tuple[str, ...]:
        """The URLs that redirected."""
        urls = (self.request.url, *(hop.url for hop in self.hops))
        return urls[:-1]

    def next_request(self) -> Request:
        """The request for the target of the last redirect."""
        if not self.hops:
            return self.request
        request = copy.copy(self.request)
        sent = self._sent(request.headers)
        request.url, request.method, request.body = sent.url, sent.method, sent.body
        request.headers, request.cookies = {**sent.headers}, {**sent.cookies}
        return request

    def left_of(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        """The headers of all of the spider's requests that are sent to this target."""
        return self._sent(headers).headers if self.hops else headers

    def complete(self, response: Response) -> None:
        """Makes the response of the last target the response of the request, as if one fetch had
        followed the redirects. Values that middlewares put into ``meta`` and options are kept."""
        request = self.request
        request.meta, request.options = response.request.meta, response.request.options
        response.request = request
        if not response.redirects:  # a middleware made the response
            response.redirects = self.passed

    def _sent(self, headers: Mapping[str, str]) -> Sent:
        request = self.request
        sent = Sent(request.url, request.method, request.body, headers, request.cookies)
        for hop in self.hops:
            sent = sent.after(hop)
        return sent


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
