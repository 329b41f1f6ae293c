"""JSONSpider: walks through the pages of a JSON API, and calls a method for each item. AccessToken:
the layer around its downloads that gets a token and sends it."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from crawlframe.base.exact_json import digest_of
from crawlframe.errors import Retry, SpiderError, TokenRefused
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlframe.robots.rules import origin_of
from crawlframe.spider.middleware import CallNext
from crawlframe.spider.spider import Spider
from crawlframe.spiders.jmes_path import JMESPath
from crawlframe.spiders.next_page import NextPage, shown
from crawlframe.spiders.results import stream

UNAUTHORIZED = 401
LATER = (408, 429, 500, 502, 503, 504)  # statuses of a token request that is made again
REPEATED = "the page has the items of the one before"

_asking: contextvars.ContextVar[bool] = contextvars.ContextVar("_asking", default=False)


class JSONSpider(Spider):
    """Walks through the pages of an API, and calls ``parse_item`` for each item.

    ``items_path`` is the JMESPath of the items of a page; by default the page is a list of them.
    ``next_page`` says where the next page is: NextURL, LinkHeader, Cursor, PageNumber, Offset, or
    an object of your own with a method ``after``; without it there is one page. The walk ends where
    it says so; where ``stop_when``, a JMESPath, is true of a page; after ``max_pages``, an argument
    of the task (counted as ``walks_cut`` in its stats); at a page with the items of the page before
    (``repeated_pages``); and at a page with a status that is handled but not 2xx. Values that
    cannot be read are an error. A request that the task has made is only made again where the page
    itself says that it is the next, so no walk goes in a circle.

    An API that gives out tokens: ``token_request`` returns the request that gets a token. It is
    made when the first token is needed, and again when a response has the status 401; the token is
    neither stored nor sent to other sites.

    Raises SpiderError when a class with a wrong path is defined."""

    items_path: ClassVar[str] = "@"
    next_page: ClassVar[NextPage | None] = None
    stop_when: ClassVar[str] = ""
    max_pages: Annotated[int, Meta(ge=0)] = 10_000  # 0 = no limit

    _items: ClassVar[JMESPath]
    _stop: ClassVar[JMESPath | None]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        try:
            cls._items = JMESPath(cls.items_path)
            cls._stop = JMESPath(cls.stop_when) if cls.stop_when else None
        except SpiderError as error:
            raise SpiderError(f"spider {cls.name!r}: {error}") from None
        if cls.next_page is not None and not callable(getattr(cls.next_page, "after", None)):
            raise SpiderError(
                f"spider {cls.name!r}: next_page must be one such as PageNumber('page'), not "
                f"{cls.next_page!r}"
            )

    def start(self) -> Iterator[Request]:
        """Yield a request for each of ``start_urls``. Write your own for one with a body."""
        for url in self.start_urls:
            yield Request(url, headers=self.request_headers())

    def request_headers(self) -> Mapping[str, str]:
        """Return the headers of the first requests, and of the following pages."""
        return {"Accept": "application/json"}

    def token_request(self) -> Request | None:
        """Return the request that gets a token; None: the API needs none."""
        return None

    def read_token(self, response: Response) -> str:
        """Return the token of the response to ``token_request``: by default its
        ``access_token``."""
        data = response.json()
        token = data.get("access_token") if isinstance(data, dict) else None
        if not isinstance(token, str):
            raise TokenRefused(f"{response.url}: there is no access_token; override read_token")
        return token

    def token_headers(self, token: str) -> Mapping[str, str]:
        """Return the headers that carry a token."""
        return {"Authorization": f"Bearer {token}"}

    def _layers(self) -> tuple[Any, ...]:
        """The layers around the downloads of this object, inside the layers of its class."""
        if type(self).token_request is JSONSpider.token_request:
            return ()
        return (AccessToken(self),)

    def parse_item(self, response: Response, item: Any) -> Any:
        """Called with each item; yields items and Requests. By default the item itself."""
        yield item

    def parse(self, response: Response, page: int = 1, before: bytes = b"") -> Any:
        """Calls ``parse_item`` for each item of a page, and asks for the next one. ``page`` is its
        number, from 1; ``before`` a digest of the items of the page before."""
        return stream(self._page(response, page, before), self.parse_item)

    def _page(self, response: Response, page: int, before: bytes) -> Iterator[Any]:
        if not response.ok:
            return
        data = response.json()
        items = self._items_of(response, data, page)
        digest = digest_of(items)
        request = self._next(response, data, items)
        # A cursor may stay the same while pages continue; the next page is then asked for alike.
        again = request is not None and request.fingerprint() == response.request.fingerprint()
        if items and digest == before and (again or not getattr(self.next_page, "in_page", False)):
            if request is not None and getattr(self.next_page, "certain", False):
                raise SpiderError(f"{response.url}: {REPEATED}, and says that there are more")
            self._end("repeated_pages", REPEATED)
            return
        for item in items:
            yield self.parse_item(response, item)
        if request is None or (again and not items):
            return
        if page == self.max_pages:
            self._end("walks_cut", f"max_pages allows {page}, and there are more")
            return
        more = {"page": page + 1, "before": digest}
        yield request.replace(cb_kwargs=request.cb_kwargs | more, dont_filter=again)

    def _next(self, response: Response, data: Any, items: list[Any]) -> Request | None:
        stop = None if self._stop is None else self._stop.find(data)
        if isinstance(stop, str) and stop.lower() in ("false", "no", "0"):
            raise SpiderError(
                f"{response.url}: stop_when {self._stop} is the text {stop!r}; compare it, as in "
                "done == 'true'"
            )
        if stop or self.next_page is None:
            return None
        request = self.next_page.after(response, data, items)
        if request is not None and not isinstance(request, Request):
            raise SpiderError(f"next_page.after returned {request!r:.80}, and no Request")
        return request

    def _end(self, count: str, why: str) -> None:
        self.stats.inc(count)
        self.log.warning("%s; the walk ends", why)

    def _items_of(self, response: Response, data: Any, page: int) -> list[Any]:
        items = self._items.find(data)
        if isinstance(items, list):
            return items
        if items is None and page > 1 and self._items.is_null(data):  # there are no more
            return []
        if isinstance(items, dict) and self.items_path != "@":
            return [items]
        hint = f'; if it is the last one, add " || `[]`" to {self._items}' if page > 1 else ""
        raise SpiderError(
            f"{response.url}: items_path {self._items} finds no list in the page, which has "
            f"{shown(data)}{hint}"
        )


class AccessToken:
    """The token of one task in one worker. It is sent only to the origins of ``start_urls`` and of
    the request that gets it, in requests without an Authorization of their own. A response with
    the status 401 has it renewed once, and the request is sent again."""

    def __init__(self, spider: JSONSpider) -> None:
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
