"""Documents: the documents of one page while it renders an order. Each stops before it is sent and
before its body is read, so that redirects, size and kind are decided here, as for the other
downloaders."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple, NoReturn
from urllib.parse import unquote_to_bytes

from playwright.async_api import CDPSession, Error

from crawlframe.base.urls import host_of
from crawlframe.errors import (
    BadRedirect,
    BodyTooLarge,
    ConnectionLost,
    DownloadRefused,
    FetchError,
    TooManyRedirects,
)
from crawlframe.fetch.browser.forward_proxy import REFUSAL
from crawlframe.fetch.browser.orders import Order

REDIRECTS = (301, 302, 303, 307, 308)
MOVED = 302  # status for a script that leads elsewhere
MAX_MOVES = 20  # documents after the first one that a page may lead to
PART = 1 << 20  # bytes of a body that are read at a time
OTHER = 0.5  # seconds to wait for the document of the order, if another came first

HTML = ("", "text/html", "application/xhtml+xml")
TEXTS = ("application/json", "application/xml", "application/javascript", "application/ld+json")
# The content policy that blocks a kind of resources.
POLICIES = {
    "images": "img-src data: blob:",
    "fonts": "font-src data:",
    "media": "media-src data: blob:",
}
# Of the transfer, which is over.
_OF_THE_TRANSFER = frozenset({"content-encoding", "content-length", "transfer-encoding", REFUSAL})

Headers = list[tuple[str, str]]


class Document(NamedTuple):
    """The last document of the page. ``body`` is None if it is the DOM that counts."""

    url: str
    status: int
    headers: Headers
    body: bytes | None = None


class Documents:
    """``answer`` is the last document; ``failure`` why there is none. ``stop`` is called when
    nothing more is to be done on the page."""

    def __init__(
        self,
        cdp: CDPSession,
        frame: str,
        order: Order,
        before_sent: Callable[[], Awaitable[None]],
        may_go: Callable[[str], Awaitable[bool]],
        stop: Callable[[], None],
    ) -> None:
        """``frame``: the main one. ``before_sent`` returns when the document of the order may be
        sent. ``may_go``: whether the worker allows a URL of the same
        host."""
        self.answer: Document | None = None
        self.failure: FetchError | None = None
        self.ending = False  # an answer or a failure is about to be there
        self.held = False  # its callback uses the page, and nothing but a failure ends it
        self.acting = False  # an action has begun, so that leaving is no redirect
        self._cdp = cdp
        self._frame = frame
        self._order = order
        self._before_sent = before_sent
        self._may_go = may_go
        self._stop = stop
        self._opened = False
        self.sent = False  # or is about to be
        self._asked: dict[str, Any] | None = None  # the document of the order, as it stopped last
        self._may_leave = False  # it has its turn
        self._passed: set[str] = set()  # documents that this order has let pass
        self._arrived = False  # until then, the page asks for the document of the order
        self._moves = 0
        self._tasks: set[asyncio.Task[None]] = set()
        policy = "; ".join(POLICIES[kind] for kind in order.block if kind in POLICIES)
        self._policy = [{"name": "Content-Security-Policy", "value": policy}] if policy else []

    def open(self) -> None:
        """Takes later documents as documents of the order."""
        self._opened = True
        self._cdp.on("Fetch.requestPaused", self._on_paused)

    async def close(self) -> None:
        if self._opened:
            self._cdp.remove_listener("Fetch.requestPaused", self._on_paused)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def fail(self, error: FetchError) -> None:
        """Ends the order with this error, if it has none yet."""
        if self.failure is None:
            self.failure = error
            self._stop()

    def _on_paused(self, event: dict[str, Any]) -> None:
        task = asyncio.ensure_future(self._guarded(self._handle(event)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guarded(self, handling: Coroutine[Any, Any, None]) -> None:
        try:
            await handling
        except FetchError as error:
            self.fail(error)
        except Error:
            pass  # the document was given up by the page, or the page has gone

    async def _handle(self, event: dict[str, Any]) -> None:
        main = event["frameId"] == self._frame
        if event.get("responseErrorReason"):
            await self._send("continueRequest", event)
        elif "responseStatusCode" not in event:
            await (self._request(event) if main else self._send("continueRequest", event))
        elif main:
            await self._response(event)
        else:
            await self._show(event)

    # -- before it is sent ------------------------------------------------------------------------

    async def _request(self, event: dict[str, Any]) -> None:
        """Handles a request of the page for a document: until the document of the order has
        arrived, it may be the document before, whose navigation the order ends."""
        if self._arrived:
            await self._move(event)
            return
        if not _is_same(event["request"]["url"], self._order.url):
            await asyncio.sleep(OTHER)
            if self._asked is not None:
                return
        waiting = self._asked is not None and not self._may_leave
        self._asked = event  # a page has one navigation at a time: the last
        if waiting:
            return
        if not self._may_leave:
            self.sent = True
            await self._before_sent()
            self._may_leave = True
        await self._leave(self._asked)

    async def _leave(self, event: dict[str, Any]) -> None:
        order = self._order
        own = {name.lower() for name, _ in order.headers}
        headers = [
            (name, value)
            for name, value in event["request"]["headers"].items()
            if name.lower() not in own
        ]
        if not own & {"cache-control", "pragma"}:  # as the other downloaders, which have no cache
            headers.append(("Cache-Control", "no-cache"))
        entries = [{"name": n, "value": value} for n, value in [*headers, *order.headers]]
        more: dict[str, Any] = {"headers": entries}
        if order.method != "GET" or order.body is not None:
            more["method"] = order.method
            more["postData"] = base64.b64encode(order.body or b"").decode()
        await self._pass(event, **more)

    async def _pass(self, event: dict[str, Any], **more: Any) -> None:
        self._passed.add(event["requestId"])
        await self._send("continueRequest", event, **more)

    async def _move(self, event: dict[str, Any]) -> None:
        """The page leads to another document."""
        url = event["request"]["url"]
        self._moves += 1
        if self._moves > MAX_MOVES and not self.held:
            await self._abort(event)
            raise TooManyRedirects(f"{self._order.url}: leads on more than {MAX_MOVES} times")
        if host_of(url) != host_of(self._order.url):
            await self._abort(event)
            if self.acting or not self._order.follow:
                raise BadRedirect(
                    f"{self._order.url}: leads to {url[:500]}, another host; yield a request for it"
                )
            self._finish(Document(self._order.url, MOVED, [("Location", url)], b""))
        elif await self._may_go(url):
            await self._pass(event)
        else:
            await self._abort(event)

    # -- before its body is read ------------------------------------------------------------------

    async def _response(self, event: dict[str, Any]) -> None:
        if event["requestId"] not in self._passed:  # of the order before this one
            await self._send("failRequest", event, errorReason="Aborted")
            return
        self._arrived = True
        url, status = event["request"]["url"], int(event["responseStatusCode"])
        # Chromium has decoded their bytes as UTF-8; elsewhere they are read as Latin-1.
        given = [
            (one["name"], one["value"].encode("utf-8", "replace").decode("latin-1"))
            for one in event.get("responseHeaders", ())
        ]
        names = {name.lower(): value for name, value in given}
        headers = [(n, v) for n, v in given if n.lower() not in _OF_THE_TRANSFER]
        if REFUSAL in names:  # by our proxy, which knows why
            await self._send("failRequest", event, errorReason="Aborted")
            return
        if status in REDIRECTS and names.get("location"):
            if self._moves:  # the next document asks for itself
                await self._send("continueRequest", event)
                return
            await self._abort(event)
            self._finish(Document(url, status, headers, b""))
            return
        essence = names.get("content-type", "").partition(";")[0].strip().lower()
        kept = names.get("content-disposition", "").lower().lstrip().startswith("attachment")
        text = (
            essence.startswith("text/") or essence in TEXTS or essence.endswith(("+json", "+xml"))
        )
        if status in (204, 205, 304):
            await self._abort(event)
            self._finish(Document(url, status, headers, b""))
        elif kept or not (text or essence in HTML):
            await self._abort(event)
            what = "an attachment" if kept else essence
            raise DownloadRefused(f"{url} is {what}; fetch it with another downloader")
        elif essence in HTML:
            self.answer = Document(url, status, headers)
            await self._show(event)
        else:
            body = await self._body(event)
            answer = Document(url, status, headers, body)
            if self._order.actions:  # also KeepPage
                self.answer = answer
                await self._fulfil(event, body)
            else:
                await self._abort(event)
                self._finish(answer)

    async def _show(self, event: dict[str, Any]) -> None:
        """Lets the page have an HTML document. Raises BodyTooLarge."""
        if self._policy or not self._is_short(event):
            # A policy counts only if we give the body, too.
            await self._fulfil(event, await self._body(event))
        else:
            await self._send("continueRequest", event)

    def _is_short(self, event: dict[str, Any]) -> bool:
        """Whether the body has a known size within the limit."""
        length = _header(event, "content-length")
        coded = _header(event, "content-encoding") not in ("", "identity")
        return length.isdigit() and int(length) <= self._order.max_body and not coded

    async def _body(self, event: dict[str, Any]) -> bytes:
        """The body without its content coding. Raises BodyTooLarge as soon as it is."""
        length = _header(event, "content-length")
        if length.isdigit() and int(length) > self._order.max_body:
            await self._refuse(event)
        if self._is_short(event):
            whole = _bytes_of(await self._send("getResponseBody", event), "body")
            if len(whole) < int(length):
                await self._abort(event)
                url = event["request"]["url"]
                raise ConnectionLost(f"{url}: {len(whole)} of {length} bytes of the body came")
            return whole
        taken = await self._send("takeResponseBodyAsStream", event)
        handle, body = taken["stream"], bytearray()
        while True:
            part = await self._cdp.send("IO.read", {"handle": handle, "size": PART})
            body += _bytes_of(part, "data")
            if len(body) > self._order.max_body:
                await self._refuse(event)
            if part["eof"]:
                await self._cdp.send("IO.close", {"handle": handle})
                return bytes(body)

    async def _refuse(self, event: dict[str, Any]) -> NoReturn:
        await self._abort(event)
        url, limit = event["request"]["url"], self._order.max_body
        raise BodyTooLarge(f"{url}: the body is larger than {limit} bytes")

    async def _fulfil(self, event: dict[str, Any], body: bytes) -> None:
        headers = [
            one
            for one in event.get("responseHeaders", ())
            if one["name"].lower() not in _OF_THE_TRANSFER
        ]
        await self._send(
            "fulfillRequest",
            event,
            responseCode=event["responseStatusCode"],
            responseHeaders=[*headers, *self._policy],
            body=base64.b64encode(body).decode(),
        )

    def _finish(self, answer: Document) -> None:
        if not self.held:
            self.answer = answer
            self._stop()

    async def _abort(self, event: dict[str, Any]) -> None:
        self.ending = True
        await self._send("failRequest", event, errorReason="Aborted")

    async def _send(self, verb: str, event: dict[str, Any], **more: Any) -> dict[str, Any]:
        parameters = {"requestId": event["requestId"], **more}
        done: dict[str, Any] = await self._cdp.send(f"Fetch.{verb}", parameters)
        return done


def _is_same(url: str, other: str) -> bool:
    """Whether two URLs differ only in escapes: the browser escapes a little more."""
    return url == other or unquote_to_bytes(url) == unquote_to_bytes(other)


def _header(event: dict[str, Any], name: str) -> str:
    headers = event.get("responseHeaders", ())
    return next((str(one["value"]) for one in headers if one["name"].lower() == name), "")


def _bytes_of(given: dict[str, Any], name: str) -> bytes:
    data: str = given.get(name, "")
    return base64.b64decode(data) if given.get("base64Encoded") else data.encode()
