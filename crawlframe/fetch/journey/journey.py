"""Journey: one fetch with its redirects. The downloaders only make single transfers; where to go
next, with which request, and when to stop is decided here. With a Trail each redirect ends a fetch,
so that the next one can pay for its host."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from multidict import CIMultiDict

from crawlframe.base.decoding import Decoding, codings_of, encoding_in
from crawlframe.base.urls import escaped, hostname_of, join, without_login
from crawlframe.errors import (
    BadRedirect,
    BadResponse,
    BodyTooLarge,
    FetchError,
    FetchTimeout,
    TooManyRedirects,
)
from crawlframe.fetch.body.memory import SMALL_BODY, Account, TransferMemory
from crawlframe.fetch.body.saving import Saving
from crawlframe.fetch.journey.context import NO_CONTEXT, FetchContext, FetchLimits, SendTime
from crawlframe.fetch.journey.cookies import TaskCookies, own_header
from crawlframe.fetch.journey.trail import Challenged, Redirected, Sent
from crawlframe.identity.identity import Identity
from crawlframe.identity.tls import Tls, tls_of
from crawlframe.proxies.proxy import ChosenProxy
from crawlframe.request.record import Hop
from crawlframe.request.request import Request
from crawlframe.response.browser_response import Rendered, RenderedResponse
from crawlframe.response.coded_body import CodedBody
from crawlframe.response.live_page import PageHandle
from crawlframe.response.response import Response

REDIRECTS = (301, 302, 303, 307, 308)
MAX_PASSED = 1 << 18  # characters of all URLs of one journey, which go into its record
# Larger bodies are decompressed in a thread from the start.
LARGE_BODY = 1 << 18
# Headers whose values servers have sent before.
_SENT_BACK = frozenset({"cookie", "if-match", "if-modified-since", "if-none-match", "if-range"})
# Methods that may be sent again if it is unknown whether the server received them (RFC 9110,
# 9.2.2).
IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})


class Answer(NamedTuple):
    """The result of one transfer: the body as sent, None when it was larger than the limit."""

    status: int
    headers: CIMultiDict[str]
    body: bytes | None
    address: str = ""  # the IP address it came from, if that is known
    url: str = ""  # of the page, if it differs from the fetched URL
    rendered: Rendered | None = None  # by a browser
    held: PageHandle | None = None  # its page, if it was kept


class Journey:
    """``url``, ``method``, ``body`` and ``headers_to_send`` define the next transfer. ``session``
    is the name of the cookie jar, "" for the task's own."""

    def __init__(
        self,
        request: Request,
        limits: FetchLimits,
        headers: Mapping[str, str],
        jar: TaskCookies | None = None,
        context: FetchContext = NO_CONTEXT,
        identity: Identity | None = None,
        saving: Saving | None = None,
        proxy: ChosenProxy | None = None,
        tls: Mapping[str, Tls] | None = None,
        keeps: bool = False,
    ) -> None:
        """``jar`` and ``proxy`` replace the context's. ``identity`` signs each transfer, and logs
        it in. ``saving``: the body is saved as a file. ``keeps``: the page is kept."""
        self.account = context.account or Account(TransferMemory())
        self.url, self.method, self.body = request.url, request.method, request.body
        self.proxy = proxy
        self.limits = limits
        self._trail = trail = context.trail
        self.passed = trail.passed if trail else ()
        self._request = request
        self._headers = headers
        self.cookies: Mapping[str, str] = request.cookies
        self.jar = jar
        self.session = request.options.session or ""
        self._allowed = context.allowed
        self._check = context.check
        self._identity = identity
        self._authorization = ""  # as sent with the last transfer
        self._sent: tuple[str, str, list[tuple[str, str]]] | None = None
        self._started = time.monotonic()
        self.send_time = context.send_time or SendTime()
        self.saving = saving
        self._tls = tls or {}
        self._keeps = keeps

    async def run(self, transfer: Callable[[Journey], Awaitable[Answer]]) -> Response:
        """Makes transfers until one is not a redirect. Raises FetchError, Redirected and
        Challenged."""
        try:
            answer = await self._make(transfer)
            while self._redirected(answer):
                del answer  # it holds a body
                self.account.settle(0)
                answer = await self._make(transfer)
            if self.saving is not None and await self.saving.finish(*answer[:3]):
                answer = answer._replace(status=self.saving.status, body=b"")
            body, coded = answer.body, None
            if body is None or (body and "Content-Encoding" in answer.headers):
                body = await self._decoded(answer)
                coded = self._coded(answer, body) if self._keeps else None
        except BaseException as error:
            self.account.settle(0)
            if isinstance(error, FetchError) and self._sent is not None:
                error.sent = self._sent
            raise
        self.account.settle(len(body) + (len(coded.data) if coded else 0))
        url = answer.url or self.url
        response = (Response if answer.rendered is None else RenderedResponse)(
            without_login(url) if "@" in url else url,
            answer.status,
            answer.headers,
            body,
            self._request,
            redirects=self.passed,
            elapsed=time.monotonic() - self._started,
            address=answer.address,
        )
        response.sent, response.coded = self._sent, coded
        response.file = None if self.saving is None else self.saving.file
        if isinstance(response, RenderedResponse) and answer.rendered is not None:
            response.rendered, response.held = answer.rendered, answer.held
        return response

    async def _make(self, transfer: Callable[[Journey], Awaitable[Answer]]) -> Answer:
        if self._check is not None:
            await self._check(self.url)
        if self.account.in_advance:
            await self.account.make_room(self.limits.max_body)
        answer = await transfer(self)
        if answer.status < 200:
            raise BadResponse(f"{self.where}: {answer.status} is no final response")
        if "Location" in answer.headers and len({*answer.headers.getall("Location")}) > 1:
            # Browsers refuse it, too.
            raise BadResponse(f"{self.where}: it has different Location headers")
        if answer.status == 401 and self._is_challenged(answer):
            if self._trail is not None and self._trail.paced:
                raise Challenged
            self.account.settle(0)
            return await transfer(self)
        return answer

    def _is_challenged(self, answer: Answer) -> bool:
        return self._identity is not None and self._identity.is_challenged(
            self.url, answer.headers, self._authorization
        )

    async def _decoded(self, answer: Answer) -> bytes:
        limit = self.limits.max_body
        if answer.body is None:
            raise BodyTooLarge(f"{self.where}: the body is larger than {limit} bytes")
        coding = encoding_in(answer.headers)
        decoding = Decoding(answer.body, coding, limit, self.where)
        if len(answer.body) <= LARGE_BODY and decoding.advance(SMALL_BODY):
            return decoding.body
        counted, done = 0, False
        while not done:
            # The decoded size is not known in advance: half as much again as decoded so far.
            step = min(limit, max(SMALL_BODY, len(answer.body), decoding.size // 2))
            await self.account.reserve(decoding.size + step - counted)
            counted = decoding.size + step
            done = await asyncio.to_thread(decoding.advance, step)
        return decoding.body

    def _coded(self, answer: Answer, body: bytes) -> CodedBody | None:
        """The body as it was sent, if that is shorter."""
        codings = codings_of(encoding_in(answer.headers), self.where)
        if len(codings) != 1 or answer.body is None or len(answer.body) >= len(body):
            return None
        return CodedBody(codings[0], answer.body, body)

    @property
    def where(self) -> str:
        """The URL for messages, with the first URL of the journey."""
        return f"{self.url} (redirected from {self.passed[0]})" if self.passed else self.url

    @property
    def tls(self) -> Tls | None:
        """The verification of the next transfer's certificate; None: as usual."""
        return tls_of(self._tls, self.url) if self._tls else None

    def remaining(self) -> float:
        """Seconds left for the next transfer. Raises FetchTimeout when there are none."""
        left = self.left()
        if left <= 0:
            raise self.timeout()
        return left

    async def wait_to_send(self) -> None:
        """Waits until the next transfer may be sent; that does not count as its time."""
        self.exclude(await self.send_time.wait())

    def exclude(self, seconds: float) -> None:
        """Takes so many seconds of waiting out of the time of the journey."""
        self._started += seconds

    async def permit(self, url: str) -> None:
        """Waits until a page of this fetch may go to ``url``. Raises FetchError, and errors of the
        check, if it may not."""
        await self._allow(url)
        await self.send_time.go_on(url)

    async def lead(self, url: str) -> None:
        """As ``permit``, for a URL to which a page leads by itself: that is a redirect, too."""
        await self._allow(url)
        if self._trail is not None and self._trail.going is not None:
            await self._trail.going(url)
        await self.send_time.go_on(url)

    async def _allow(self, url: str) -> None:
        if self._allowed is not None and not self._allowed(hostname_of(url)):
            raise BadRedirect(f"{self.where}: leads to {url}, outside allowed_domains")
        if self._check is not None:
            await self._check(url)

    def left(self) -> float:
        """Seconds until the timeout; negative after it. Waiting for memory does not count."""
        spent = time.monotonic() - self._started - self.account.waited
        return self.limits.timeout - spent

    async def wait_for(self, running: asyncio.Future[Any]) -> None:
        """Waits until a transfer is done. Raises FetchTimeout."""
        while not running.done():
            if (left := self.left()) <= 0:
                raise self.timeout()
            # Checked again when time is up: the transfer may have waited for memory.
            await asyncio.wait([running], timeout=max(0.01, left))

    @property
    def idempotent(self) -> bool:
        return self.method in IDEMPOTENT

    def timeout(self, detail: str = "") -> FetchTimeout:
        text = f"{self.where}: no complete response within {self.limits.timeout:g} s"
        return FetchTimeout(f"{text}: {detail}" if detail else text)

    def headers_to_send(self) -> list[tuple[str, str]]:
        """The headers, except headers of the transfer itself (Host, Content-Length)."""
        headers = [*self._headers.items()]
        if self.jar is not None:
            cookie = self.jar.header_for(self.url, self.cookies, self.session)
        else:
            cookie = own_header(self.url, self.cookies)
        if cookie and not any(name.lower() == "cookie" for name, _ in headers):
            headers.append(("Cookie", cookie))
        if self.saving is not None:
            headers += self.saving.headers_for(self.url, self.where, headers)
        if self._identity is not None:
            added = self._identity.headers_for(self.url, self.method, headers)
            self._authorization = added[0][1] if added and added[0][0] == "Authorization" else ""
            headers += added
        self._sent = self.method, self.url, headers
        return headers

    def _redirected(self, answer: Answer) -> bool:
        """Stores the response's cookies. Returns whether there is another transfer to make."""
        if self.jar is not None and "Set-Cookie" in answer.headers:
            self.jar.absorb(self.url, answer.headers.getall("Set-Cookie"), self.session)
        if answer.status not in REDIRECTS or not self.limits.follow:
            return False
        location = answer.headers.get("Location", "").strip(" \t")
        if not location:
            return False
        if len(self.passed) >= self.limits.max_redirects:
            raise TooManyRedirects(
                f"{self.where}: more than {self.limits.max_redirects} redirects, the last to "
                f"{location[:500]}"
            )
        target = join(self.url, escaped(location))
        if target is None:
            raise BadRedirect(
                f"{self.where}: redirects to {location[:500]!r}, which is not an http(s) URL"
            )
        target = without_login(target)
        if self._allowed is not None and not self._allowed(hostname_of(target)):
            raise BadRedirect(f"{self.where}: redirects to {target}, outside allowed_domains")
        if sum(map(len, self.passed)) + len(target) > MAX_PASSED:
            raise BadRedirect(
                f"{self.where}: redirects to {target[:500]}; with it, the redirects of this "
                f"request have more than {MAX_PASSED} characters"
            )
        hop = Hop(answer.status, target)
        sent = Sent(self.url, self.method, self.body, self._headers, self.cookies).after(hop)
        self.passed += (self.url,)
        self.url, self.method, self.body, self._headers, self.cookies = sent
        if self._trail is not None:
            self._trail.hops.append(hop)
            raise Redirected
        return True


def header_bytes(name: str, value: str) -> bytes:
    """A header value as it is sent: in UTF-8, or as it came if a server has sent it before."""
    encoding = "latin-1" if name.lower() in _SENT_BACK else "utf-8"
    try:
        return value.strip().encode(encoding)
    except UnicodeEncodeError:
        return value.strip().encode("utf-8", "replace")


@lru_cache(maxsize=1024)  # servers send most lines again and again
def header_of(line: bytes) -> tuple[str, str] | None:
    """Name and value of a header line, in Latin-1, as browsers read it; None if it is none."""
    if line[:1] in (b" ", b"\t"):
        return None
    name, colon, value = line.decode("latin-1").partition(":")
    name = name.rstrip(" \t")
    return (name, value.strip(" \t\r\n")) if colon and name else None
