"""Servers that break the rules of HTTP: both downloaders read the same page, or refuse it, and
nothing of it becomes the page of the next URL."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
import uvloop

from crawlframe.conf import Settings
from crawlframe.errors import BadEncoding, BadResponse, BodyTooLarge, ConnectionLost, FetchTimeout
from crawlframe.fetch.downloader import Downloader
from crawlframe.fetch.journey.context import FetchLimits
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlframe.spider.settings import SpiderSettings

from .conftest import CERTIFICATE, LOOPBACK, Client, Exchange, Site

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
EVIL = OK + b"Content-Length: 4\r\n\r\nEVIL"


def page(more: bytes = b"", first: bytes = OK) -> bytes:
    return first + more + b"Content-Length: 3\r\n\r\nodd"


def moved(more: bytes) -> bytes:
    return page(more, b"HTTP/1.1 302 Found\r\n")


def many(number: int, size: int) -> bytes:
    return b"".join(b"X-%d: %s\r\n" % (one, b"v" * size) for one in range(number))


PAGES: dict[str, tuple[bytes, dict[str, str]]] = {
    "100": (b"HTTP/1.1 100 Continue\r\n\r\n" + page(), {}),
    "102": (b"HTTP/1.1 102 Processing\r\n\r\n" + page(), {}),
    "103": (b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + page(b"X-A: 1\r\n"), {"X-A": "1"}),
    "103 with a length": (b"HTTP/1.1 103 Early Hints\r\nContent-Length: 9\r\n\r\n" + page(), {}),
    "199": (b"HTTP/1.1 199 Odd\r\n\r\n" + page(), {}),
    "several 1xx": (
        b"HTTP/1.1 100 C\r\n\r\n" + b"HTTP/1.1 103 E\r\nLink: x\r\n\r\n" * 2 + page(),
        {},
    ),
    "space before the colon": (page(b"X-A : 1\r\nX-B: 2\r\n"), {"X-A": "1", "X-B": "2"}),
    "tab before the colon": (page(b"X-A\t: 1\r\nX-B: 2\r\n"), {"X-A": "1", "X-B": "2"}),
    "space in the name": (page(b"X A: 1\r\nX-B: 2\r\n"), {"X A": "1", "X-B": "2"}),
    "no name": (page(b": 1\r\nX-B: 2\r\n"), {"X-B": "2"}),
    "no value": (page(b"X-A:\r\nX-B: 2\r\n"), {"X-A": "", "X-B": "2"}),
    "continued": (
        page(b"X-A: 1\r\n  more\r\n\tyet\r\nX-B: 2\r\n"),
        {"X-A": "1 more yet", "X-B": "2"},
    ),
    "continued at first": (page(b" X-A: 1\r\nX-B: 2\r\n"), {"X-B": "2"}),
    "line feeds": (page(b"X-A: 1\r\nX-B: 2\r\n").replace(b"\r", b""), {"X-A": "1", "X-B": "2"}),
    "some line feeds": (page(b"X-A: 1\nX-B: 2\r\n"), {"X-A": "1", "X-B": "2"}),
    "breaks of Unicode": (
        page(b"X-A: a\x0bb\x0cc\x1cd\x85e\xa0\r\n"),
        {"X-A": "a\x0bb\x0cc\x1cd\x85e\xa0"},
    ),
    "1000 headers": (page(many(1000, 3)), {f"X-{one}": "vvv" for one in range(1000)}),
    "a long header": (page(b"X-A: " + b"v" * 90_000 + b"\r\n"), {"X-A": "v" * 90_000}),
    "one Location twice": (page(b"Location: /a\r\nLocation: /a\r\n"), {"Location": "/a"}),
    "one length twice": (page(b"Content-Length: 3\r\n"), {}),
    "one length twice in one": (OK + b"Content-Length: 3, 3\r\n\r\nodd", {}),
    "length and chunks": (CHUNKED[:-2] + b"Content-Length: 2\r\n\r\n3\r\nodd\r\n0\r\n\r\n", {}),
    "Chunked": (CHUNKED.replace(b"chunk", b"CHUNK") + b"3\r\nodd\r\n0\r\n\r\n", {}),
    "chunked twice": (CHUNKED[:-2] + CHUNKED[17:] + b"3\r\nodd\r\n0\r\n\r\n", {}),
    "extensions and trailers": (
        CHUNKED + b'3;a="b"\r\nodd\r\n0;c\r\nX-T: 1\r\nContent-Length: 9\r\n\r\n',
        {},
    ),
    "space after a length": (CHUNKED + b"3  \r\nodd\r\n0\r\n\r\n", {}),
    "zeros before a length": (CHUNKED + b"0003\r\nodd\r\n000\r\n\r\n", {}),
    "bytes after the body": (page() + b"junk", {}),
    "a response after the body": (page() + EVIL, {}),
    "a response after the chunks": (CHUNKED + b"3\r\nodd\r\n0\r\n\r\n" + EVIL, {}),
    "a response after close": (page(b"Connection: close\r\n") + EVIL, {}),
    "1.0 that stays": (page(b"Connection: keep-alive\r\n", b"HTTP/1.0 200 OK\r\n"), {}),
    "1.0 with chunks": (CHUNKED.replace(b"1.1", b"1.0") + b"3\r\nodd\r\n0\r\n\r\n", {}),
    "2.0 without frames": (page(first=b"HTTP/2.0 200 OK\r\n"), {}),
    "lower case": (page(first=b"http/1.1 200 OK\r\n"), {}),
    "no reason": (page(first=b"HTTP/1.1 200\r\n"), {}),
    "an empty reason": (page(first=b"HTTP/1.1 200 \r\n"), {}),
}
# Read by requests only, to which such a page is moved.
NOT_FOR_CURL: dict[str, tuple[bytes, dict[str, str]]] = {
    "no colon": (
        page(b"X-A: 1\r\nWarning in line 7\r\n continued\r\nX-B: 2\r\n"),
        {"X-A": "1", "X-B": "2"},
    ),
    "no colon after 103": (b"HTTP/1.1 103 E\r\nX-B: 2\r\n\r\n" + page(b"Warning\r\n") + EVIL, {}),
    "a second status line": (OK + page(b"X-A: 1\r\n"), {"X-A": "1"}),
}
BODILESS = {
    "204 with a body": b"HTTP/1.1 204 No\r\nContent-Length: 4\r\n\r\nbody",
    "204 and a response": b"HTTP/1.1 204 No\r\n\r\n" + EVIL,
    "304 with a body": b"HTTP/1.1 304 No\r\nContent-Length: 4\r\n\r\nbody",
    "304 and a response": b"HTTP/1.1 304 No\r\n\r\n" + EVIL,
    "an empty page and a response": OK + b"Content-Length: 0\r\n\r\n" + EVIL,
}
Refusal = type[Exception] | tuple[type[Exception], ...]
REFUSED: dict[str, tuple[bytes, Refusal]] = {
    "CR in a value": (page(b"X-A: a\rX-B: 2\r\n"), BadResponse),
    "NUL in a value": (page(b"X-A: a\0b\r\n"), BadResponse),
    "CR in Location": (moved(b"Location: /a\rb\r\n"), BadResponse),
    "NUL in Location": (moved(b"Location: /a\0b\r\n"), BadResponse),
    "two Locations": (moved(b"Location: /a\r\nLocation: /b\r\n"), BadResponse),
    "two Locations of a page": (page(b"Location: /a\r\nLocation: /b\r\n"), BadResponse),
    "6000 headers": (page(many(6000, 3)), BadResponse),
    "too long a header": (page(many(1, 200_000)), BadResponse),
    "too large a head": (page(many(10, 40_000)), BadResponse),
    "two lengths": (page(b"Content-Length: 5\r\n") + EVIL, BadResponse),
    "two lengths in one": (OK + b"Content-Length: 3, 5\r\n\r\nodd" + EVIL, BadResponse),
    "a negative length": (OK + b"Content-Length: -3\r\n\r\nodd" + EVIL, BadResponse),
    "a signed length": (OK + b"Content-Length: +3\r\n\r\nodd" + EVIL, BadResponse),
    "a word for a length": (OK + b"Content-Length: odd\r\n\r\nodd" + EVIL, BadResponse),
    "an underscore in a length": (OK + b"Content-Length: 1_0\r\n\r\nodd" + EVIL, BadResponse),
    "an empty length": (OK + b"Content-Length:\r\n\r\nodd" + EVIL, BadResponse),
    "a huge length": (OK + b"Content-Length: 9" + b"9" * 30 + b"\r\n\r\nodd", BodyTooLarge),
    "a packed transfer": (
        OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n3\r\nodd\r\n0\r\n\r\n",
        (BadResponse, BadEncoding),
    ),
    "an unknown transfer coding": (
        page(b"Transfer-Encoding: xchunked\r\n"),
        (BadResponse, BadEncoding),
    ),
    "a negative chunk": (CHUNKED + b"-3\r\nodd\r\n0\r\n\r\n", (BadResponse, ConnectionLost)),
    "a word for a chunk": (CHUNKED + b"zzz\r\nodd\r\n", BadResponse),
    "a chunk that is longer": (CHUNKED + b"3\r\noddX\r\n0\r\n\r\n", BadResponse),
    "101": (b"HTTP/1.1 101 S\r\nUpgrade: x\r\n\r\n" + page(), (BadResponse, FetchTimeout)),
    "0.9": (b"<p>no status line</p>", BadResponse),
    "1.2": (page(first=b"HTTP/1.2 200 OK\r\n"), BadResponse),
    "9.9": (page(first=b"HTTP/9.9 200 OK\r\n"), BadResponse),
    "ICY": (page(first=b"ICY 200 OK\r\n"), BadResponse),
    "two digits": (page(first=b"HTTP/1.1 20 OK\r\n"), BadResponse),
    "000": (page(first=b"HTTP/1.1 000 OK\r\n"), BadResponse),
    "no status": (page(first=b"HTTP/1.1\r\n"), BadResponse),
    "a line before": (b"\r\n" + page(), BadResponse),
    "frames of HTTP/2": (b"\0\0\x12\4\0\0\0\0\0" + bytes(18), BadResponse),
}
CLOSED = {"a negative chunk", "101", "0.9", "frames of HTTP/2"}  # the server closes after these
ANSWERS = (
    {name: answer for name, (answer, _) in (PAGES | NOT_FOR_CURL).items()}
    | {name: answer for name, (answer, _) in REFUSED.items()}
    | BODILESS
)


def then_next(client: Client | None, site: Site, name: str, method: str = "GET") -> Any:
    """The response with this name, or its error. Two more URLs must have their own pages."""
    site.raw("/odd", ANSWERS[name], keep=name not in CLOSED)

    @site.on("/next")
    async def own(exchange: Exchange) -> bool:
        body = exchange.target.encode()
        await exchange.send(OK + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        return True

    async def job(downloader: Any) -> Any:
        async def fetch(path: str, method: str = "GET") -> Response:
            request = Request(f"{site.url}{path}", method=method, redirects=0)
            if client is None:
                found = await downloader.fetch(request, SpiderSettings())
            else:
                limits = FetchLimits(timeout=2, follow=False)
                found = await downloader.fetch(request, limits, {})
            response: Response = found
            return response

        try:
            first: Any = await fetch("/odd", method)
        except Exception as error:
            first = error
        for path in ("/next?1", "/next?2"):
            assert (await fetch(path)).body == path.encode(), path
        return first

    if client is not None:
        return client.run(job)

    async def main() -> Any:
        downloader = Downloader(Settings(allow_private=LOOPBACK))
        try:
            return await job(downloader)
        finally:
            await downloader.close()

    return uvloop.run(main())


def check(found: Any, headers: dict[str, str]) -> None:
    assert not isinstance(found, Exception), found
    of_transfer = ("Content-Length", "Transfer-Encoding", "Connection")
    own = {name: value for name, value in found.headers.items() if name not in of_transfer}
    assert (found.status, found.body, own) == (200, b"odd", headers)


@pytest.mark.parametrize("name", PAGES)
def test_odd_pages(client: Client, site: Site, name: str) -> None:
    check(then_next(client, site, name), PAGES[name][1])


@pytest.mark.parametrize("name", NOT_FOR_CURL)
def test_pages_that_are_moved_to_requests(site: Site, name: str) -> None:
    check(then_next(None, site, name), NOT_FOR_CURL[name][1])


@pytest.mark.parametrize("name", BODILESS)
def test_responses_without_a_body(client: Client, site: Site, name: str) -> None:
    assert then_next(client, site, name).body == b""


@pytest.mark.parametrize("name", ["100", "a response after the body", "length and chunks"])
def test_head_with_a_body(client: Client, site: Site, name: str) -> None:
    found = then_next(client, site, name, "HEAD")
    assert (found.status, found.body) == (200, b"")


@pytest.mark.parametrize("name", REFUSED)
def test_refused_pages(client: Client, site: Site, name: str) -> None:
    assert isinstance(then_next(client, site, name), REFUSED[name][1])


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize(
    "first", [page(), b"HTTP/1.1 204 No\r\n\r\n", page(first=OK[:5] + b"2.0 200 OK\r\n")]
)
def test_what_nobody_has_asked_for_belongs_to_no_url(
    client: Client, site: Site, first: bytes, tls: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RFC 9112, 9.2: it comes while the connection is idle, soon after its last response."""
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    written = threading.Event()

    @site.on("/")
    async def twice(exchange: Exchange) -> bool:
        def more() -> None:
            written.set()  # now, so that it is seen if the client has closed the connection
            exchange.writer.write(EVIL)

        await exchange.send(first)
        asyncio.get_running_loop().call_later(0.02, more)
        return True

    site.answer("/next", b"next")
    url = site.tls_url if tls else site.url

    async def job(downloader: Any) -> None:
        await downloader.fetch(Request(f"{url}/"), FetchLimits(), {})
        assert await asyncio.to_thread(written.wait, 30)
        await asyncio.sleep(0.05)
        for _ in range(3):
            found = await downloader.fetch(Request(f"{url}/next"), FetchLimits(), {})
            assert found.body == b"next"

    client.run(job)
