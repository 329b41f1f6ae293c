"""Journey: one fetch with its redirects. The downloaders only make single transfers; where to go
next, with which request, and when to stop is decided here."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from multidict import CIMultiDict

from crawlframe.errors import BadRedirect, BodyTooLarge, FetchTimeout, TooManyRedirects
from crawlframe.fetch.cookies import TaskCookies, own_header
from crawlframe.fetch.decoding import Decoding
from crawlframe.fetch.limits import FetchLimits
from crawlframe.fetch.memory import SMALL, Account, TransferMemory
from crawlframe.identity.identity import Identity
from crawlframe.links import host_of, hostname_of, join
from crawlframe.request import Request
from crawlframe.response import Response

REDIRECTS = (301, 302, 303, 307, 308)
# Larger bodies are decompressed in a thread from the start.
LARGE = 1 << 18
# Methods that may be sent again if it is unknown whether the server received them (RFC 9110,
# 9.2.2).
IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})

_OF_ONE_HOST = frozenset({"authorization", "cookie", "host", "proxy-authorization"})
_OF_A_BODY = frozenset({"content-type", "content-encoding", "content-language", "content-length",
                        "content-location", "transfer-encoding"})  # fmt: skip


class Answer(NamedTuple):
    """The result of one transfer: the body as sent, None when it was larger than the limit."""

    status: int
    headers: CIMultiDict[str]
    body: bytes | None


class Journey:
    """``url``, ``method``, ``body`` and ``headers_to_send`` define the next transfer. ``session``
    is the name of the cookie jar, "" for the task's own."""

    def __init__(
        self,
        request: Request,
        limits: FetchLimits,
        headers: Mapping[str, str],
        jar: TaskCookies | None = None,
        allowed: Callable[[str], bool] | None = None,
        account: Account | None = None,
        identity: Identity | None = None,
    ) -> None:
        """``account`` counts the body, including that of the response; its owner closes it.
        ``identity`` signs each transfer, and logs it in."""
        self.account = account or Account(TransferMemory())
        self.url = request.url
        self.method = request.method
        self.body = request.body
        self.limits = limits
        self.passed: tuple[str, ...] = ()
        self._request = request
        self._headers = headers
        self._cookies = request.cookies
        self._jar = jar
        self.session = request.options.session or ""
        self._allowed = allowed
        self._identity = identity
        self._authorization = ""  # as sent with the last transfer
        self._started = time.monotonic()

    async def run(self, transfer: Callable[[Journey], Awaitable[Answer]]) -> Response:
        """Makes transfers until one is not a redirect. Raises FetchError."""
        try:
            answer = await self._make(transfer)
            while self._redirected(answer):
                del answer  # it holds a body
                self.account.settle(0)
                answer = await self._make(transfer)
            body = answer.body
            if body is None or (body and "Content-Encoding" in answer.headers):
                body = await self._decoded(answer)
        except BaseException:
            self.account.settle(0)
            raise
        self.account.settle(len(body))
        return Response(
            self.url,
            answer.status,
            answer.headers,
            body,
            self._request,
            redirects=self.passed,
            elapsed=time.monotonic() - self._started,
        )

    async def _make(self, transfer: Callable[[Journey], Awaitable[Answer]]) -> Answer:
        if self.account.in_advance:
            await self.account.make_room(self.limits.max_body)
        answer = await transfer(self)
        if answer.status == 401 and self._is_challenged(answer):
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
        coding = ",".join(answer.headers.getall("Content-Encoding"))
        decoding = Decoding(answer.body, coding, limit, self.where)
        if len(answer.body) <= LARGE and decoding.advance(SMALL):
            return decoding.body
        counted, done = 0, False
        while not done:
            # The decoded size is not known in advance: half as much again as decoded so far.
            step = min(limit, max(SMALL, len(answer.body), decoding.size // 2))
            await self.account.reserve(decoding.size + step - counted)
            counted = decoding.size + step
            done = await asyncio.to_thread(decoding.advance, step)
        return decoding.body

    @property
    def where(self) -> str:
        """The URL for messages, with the first URL of the journey."""
        return f"{self.url} (redirected from {self.passed[0]})" if self.passed else self.url

    def remaining(self) -> float:
        """Seconds left for the next transfer. Raises FetchTimeout when there are none."""
        left = self.left()
        if left <= 0:
            raise self.timeout()
        return left

    def left(self) -> float:
        """Seconds until the timeout; negative after it. Waiting for memory does not count."""
        spent = time.monotonic() - self._started - self.account.waited
        return self.limits.timeout - spent

    @property
    def idempotent(self) -> bool:
        return self.method in IDEMPOTENT

    def timeout(self, detail: str = "") -> FetchTimeout:
        text = f"{self.where}: no complete response within {self.limits.timeout:g} s"
        return FetchTimeout(f"{text}: {detail}" if detail else text)

    def headers_to_send(self) -> list[tuple[str, str]]:
        """The headers, except those of the transfer itself (Host, Content-Length)."""
        headers = [*self._headers.items()]
        if self._jar is not None:
            cookie = self._jar.header_for(self.url, self._cookies, self.session)
        else:
            cookie = own_header(self.url, self._cookies)
        if cookie and not any(name.lower() == "cookie" for name, _ in headers):
            headers.append(("Cookie", cookie))
        if self._identity is not None:
            added = self._identity.headers_for(self.url, self.method, headers)
            self._authorization = added[0][1] if added and added[0][0] == "Authorization" else ""
            headers += added
        return headers

    def _redirected(self, answer: Answer) -> bool:
        """Stores the response's cookies. Returns whether there is another transfer to make."""
        if self._jar is not None and "Set-Cookie" in answer.headers:
            self._jar.absorb(self.url, answer.headers.getall("Set-Cookie"), self.session)
        if answer.status not in REDIRECTS or not self.limits.follow:
            return False
        location = answer.headers.get("Location", "").strip()
        if not location:
            return False
        if len(self.passed) >= self.limits.max_redirects:
            raise TooManyRedirects(
                f"{self.where}: more than {self.limits.max_redirects} redirects, the last to "
                f"{location[:500]}"
            )
        target = join(self.url, _readable(location))
        if target is None:
            raise BadRedirect(
                f"{self.where}: redirects to {location[:500]!r}, which is not an http(s) URL"
            )
        if self._allowed is not None and not self._allowed(hostname_of(target)):
            raise BadRedirect(f"{self.where}: redirects to {target}, outside allowed_domains")
        self._change_method(answer.status)
        if not _same_host(self.url, target):
            self._drop(_OF_ONE_HOST)
            self._cookies = {}
        self.passed += (self.url,)
        self.url = target
        return True

    def _change_method(self, status: int) -> None:
        """Changes the method to GET where browsers do."""
        if (status in (301, 302) and self.method == "POST") or (
            status == 303 and self.method not in ("GET", "HEAD")
        ):
            self.method, self.body = "GET", None
            self._drop(_OF_A_BODY)

    def _drop(self, names: frozenset[str]) -> None:
        self._headers = {k: v for k, v in self._headers.items() if k.lower() not in names}


def header_bytes(value: str) -> bytes:
    """A header value as it is sent: in Latin-1, or UTF-8 where that is not possible."""
    try:
        return value.strip().encode("latin-1")
    except UnicodeEncodeError:
        return value.strip().encode("utf-8", "replace")


def _same_host(url: str, target: str) -> bool:
    """Whether the target may receive what was meant for the first one: not if it is unencrypted."""
    downgraded = url.startswith("https:") and target.startswith("http:")
    return host_of(url) == host_of(target) and not downgraded


def _readable(location: str) -> str:
    """Header bytes are read as Latin-1; servers that send more than ASCII mean UTF-8."""
    if location.isascii():
        return location
    try:
        return location.encode("latin-1").decode()
    except UnicodeError:
        return location
