"""AccessToken: the layer around the downloads of a JSONSpider that gets a token and sends it."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Iterable, Mapping
from typing import ClassVar, Protocol

from crawlframe.errors import Retry, SpiderError, TokenRefused
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlframe.robots.rules import origin_of
from crawlframe.spider.inline_fetch import Inline
from crawlframe.spider.middleware import CallNext

UNAUTHORIZED = 401
LATER = (408, 429, 500, 502, 503, 504)  # statuses of a token request that is made again

_asking: contextvars.ContextVar[bool] = contextvars.ContextVar("_asking", default=False)


class TokenSpider(Protocol):
    """A spider whose API gives out tokens."""

    start_urls: ClassVar[Iterable[str]]
    _inline: Inline | None

    def token_request(self) -> Request | None: ...

    def read_token(self, response: Response) -> str: ...

    def token_headers(self, token: str) -> Mapping[str, str]: ...


class AccessToken:
    """The token of one task in one worker. It is sent only to the origins of ``start_urls`` and of
    the request that gets it, in requests without an Authorization of their own. A response with
    the status 401 has it renewed once, and the request is sent again."""

    def __init__(self, spider: TokenSpider) -> None:
        self._spider = spider
        self._token: str | None = None
        self._renewing: asyncio.Lock | None = None
        self._origins = {origin_of(Request(url).url) for url in spider.start_urls}

    async def fetch(self, request: Request, call_next: CallNext) -> Response:
        """As in Middleware. Raises TokenRefused, and Retry while no token can be had."""
        inline = self._spider._inline
        offline = inline is not None and inline.offline  # an offline client needs no token
        if offline or _asking.get() or not self._belongs(request):
            return await call_next(request)
        token = self._token or await self._renew(None)
        response = await call_next(self._with(request, token))
        if response.status == UNAUTHORIZED:
            token = await self._renew(token)
            response = await call_next(self._with(request, token))
        response.request = request  # requests for further pages are made of it, without the token
        return response

    def _belongs(self, request: Request) -> bool:
        if any(name.lower() == "authorization" for name in request.headers):
            return False
        if origin_of(request.url) in self._origins:
            return True
        asked = self._spider.token_request()
        return asked is not None and origin_of(asked.url) == origin_of(request.url)

    def _with(self, request: Request, token: str) -> Request:
        return request.replace(headers=request.headers | dict(self._spider.token_headers(token)))

    async def _renew(self, old: str | None) -> str:
        """A token other than ``old``: all requests that need one wait for the first that asks."""
        if self._renewing is None:
            self._renewing = asyncio.Lock()
        async with self._renewing:
            if self._token is None or self._token == old:
                self._token = None
                self._token = await self._get()
            return self._token

    async def _get(self) -> str:
        request, inline = self._spider.token_request(), self._spider._inline
        if request is None or inline is None:
            raise SpiderError("token_request must return a Request, and be used in a node")
        set_before = _asking.set(True)  # it needs no token itself
        try:
            response = await inline.fetch(request)
        finally:
            _asking.reset(set_before)
        if response.status in LATER:
            raise Retry("token")
        if not response.ok:
            raise TokenRefused(f"{response.url} gave no token: it answered {response.status}")
        token = self._spider.read_token(response)
        if not token:
            raise TokenRefused(f"{response.url} gave no token: read_token returned no text")
        return token
