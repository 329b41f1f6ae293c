"""Downloader: which client fetches, with which headers and limits."""

from __future__ import annotations

import asyncio
import gzip
from typing import Any

import pytest
import requests
import uvloop

from crawlframe.base.decoding import ACCEPTED
from crawlframe.conf import Settings
from crawlframe.errors import (
    BadHeader,
    BadRedirect,
    ConnectionLost,
)
from crawlframe.fetch.downloader import Downloader, limits_of
from crawlframe.fetch.journey.context import FetchContext, FetchLimits
from crawlframe.fetch.journey.cookies import TaskCookies
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlframe.spider.settings import SpiderSettings
from crawlframe.spider.spider import Spider

from .conftest import LOOPBACK, Exchange, Site

MEGABYTE = 1 << 20
SETTINGS = Settings(allow_private=LOOPBACK, user_agent="Node/1")


def fetch(
    request: Request | str, settings: SpiderSettings | None = None, *context: Any
) -> Response:
    asked = Request(request) if isinstance(request, str) else request

    async def main() -> Response:
        downloader = Downloader(SETTINGS)
        try:
            return await downloader.fetch(asked, settings or SpiderSettings(), *context)
        finally:
            await downloader.close()

    response: Response = uvloop.run(main())
    return response


def names_sent(site: Site) -> list[str]:
    return [name.lower() for name, _ in site.seen[-1].headers]


def test_default_headers(site: Site) -> None:
    site.answer("/")
    fetch(f"{site.url}/")
    got = site.seen[0]
    assert got.header("User-Agent") == "Node/1"
    assert (got.header("Accept") or "").startswith("text/html")
    assert got.header("Accept-Language") == "en"
    assert got.header("Accept-Encoding") == ACCEPTED
    assert got.header("Cookie") is None


@pytest.mark.parametrize("downloader", ["curl", "requests"])
def test_the_login_of_a_url_is_sent_and_nothing_else_has_it(site: Site, downloader: str) -> None:
    """Not the URL of the request, its record or its response, nor the target of a redirect."""
    host = site.url.removeprefix("http://")
    site.answer("/")
    site.answer("/from", b"", 302, {"Location": f"http://eve:theirs@{host}/to"})
    site.answer("/to")
    own = SpiderSettings(downloader=downloader)
    url = f"http://us%65r:p%40%C3%BC@{host}/"
    for request in (Request(url), Request.plain(url)):
        response = fetch(request, own)
        assert response.url == request.url == f"{site.url}/"
        assert site.seen[-1].header("Authorization") == "Basic dXNlcjpwQMO8"
        assert b"us%65r" not in request.encode()
        assert "dXNlcj" not in repr(request)
    response = fetch(Request(f"http://user:p@{host}/from"), own)
    assert (response.url, response.redirects) == (f"{site.url}/to", (f"{site.url}/from",))
    assert site.seen[-1].header("Authorization") == "Basic dXNlcjpw"
    assert fetch(Request(url, headers={"authorization": "Bearer x"}), own).status == 200
    assert site.seen[-1].header("Authorization") == "Bearer x"


def test_headers_of_spider_and_request_win(site: Site) -> None:
    site.answer("/")
    settings = SpiderSettings(
        user_agent="Spider/1", headers={"accept-language": "zh", "X-A": "spider", "X-B": "spider"}
    )
    fetch(Request(f"{site.url}/", headers={"x-a": "request"}), settings)
    got = site.seen[0]
    assert got.header("User-Agent") == "Spider/1"
    assert got.header("Accept-Language") == "zh"
    assert got.header("X-A") == "request"
    assert got.header("X-B") == "spider"
    assert len(set(names_sent(site))) == len(names_sent(site))
    fetch(Request(f"{site.url}/", headers={"USER-AGENT": "Request/1"}), settings)
    assert site.seen[1].header("User-Agent") == "Request/1"


class Login(Spider):
    name = "login"

    def requests_session(self) -> requests.Session:
        session = requests.Session()
        session.headers["X-Session"] = "author"
        return session


@pytest.mark.parametrize(
    ("of_request", "of_spider", "used"),
    [
        (None, "curl", "curl"),
        (None, "requests", "requests"),
        ("requests", "curl", "requests"),
        ("curl", "requests", "curl"),
    ],
)
def test_which_downloader(site: Site, of_request: Any, of_spider: str, used: str) -> None:
    site.answer("/", b"here")
    request = Request(f"{site.url}/", downloader=of_request)
    response = fetch(request, SpiderSettings(downloader=of_spider), FetchContext(spider=Login()))
    assert response.body == b"here"
    assert response.request is request
    assert site.seen[0].header("X-Session") == ("author" if used == "requests" else None)


@pytest.mark.parametrize(
    ("settings", "options", "limits"),
    [
        ({}, {}, {}),
        ({"timeout": 0.2}, {}, {"timeout": 0.2}),
        ({"max_body": 99, "max_redirects": 0}, {}, {"max_body": 99, "max_redirects": 0}),
        ({"timeout": 40.0}, {"timeout": 0.2}, {"timeout": 0.2}),
        ({"max_body": 10}, {"max_body": 100}, {"max_body": 100}),
        ({"max_redirects": 1}, {"redirects": 3}, {"max_redirects": 3}),
        ({}, {"redirects": 0}, {"max_redirects": 0, "follow": False}),
        ({"file_timeout": 9.0}, {"save": True, "max_body": 100}, {"timeout": 9.0}),
    ],
)  # fmt: skip
def test_limits_of_spider_and_request(
    settings: dict[str, Any], options: dict[str, Any], limits: dict[str, Any]
) -> None:
    request = Request("http://h/", **options)
    assert limits_of(request, SpiderSettings(**settings)) == FetchLimits(**limits)


@pytest.mark.parametrize("downloader", ["curl", "requests"])
def test_jar_and_hosts_are_passed_on(site: Site, downloader: str) -> None:
    site.answer("/", status=302, headers={"Location": "http://localhost/", "Set-Cookie": "a=1"})
    jar = TaskCookies()
    settings = SpiderSettings(downloader=downloader)
    allowed = FetchContext(jar=jar, allowed=lambda hostname: hostname != "localhost")
    with pytest.raises(BadRedirect):
        fetch(f"{site.url}/", settings, allowed)
    assert jar.header_for(f"{site.url}/") == "a=1"


# -- options of one request -----------------------------------------------------------------------


@pytest.mark.parametrize("downloader", ["curl", "requests"])
@pytest.mark.parametrize("cookies", [True, False])
def test_sessions_are_kept_apart(site: Site, downloader: str, cookies: bool) -> None:
    @site.on("/")
    async def set_once(exchange: Exchange) -> bool:
        name = exchange.target.partition("?")[2]
        head = f"HTTP/1.1 200 OK\r\nSet-Cookie: {name}=1\r\nContent-Length: 0\r\n\r\n"
        await exchange.send(head.encode())
        return True

    class Own(Spider):
        name = "own"

        def requests_session(self) -> requests.Session:
            return requests.Session()

    async def main() -> None:
        own, jar, client = Own(), TaskCookies(), Downloader(SETTINGS)
        settings = SpiderSettings(downloader=downloader, cookies=cookies)
        try:
            for session in ("left", "right", None, "left", "right", None):
                request = Request(f"{site.url}/?{session}", session=session)
                await client.fetch(request, settings, FetchContext(spider=own, jar=jar))
        finally:
            await client.close()

    uvloop.run(main())
    sent = [exchange.header("Cookie") for exchange in site.seen]
    assert sent[:5] == [None, None, None, "left=1", "right=1"]
    if downloader == "curl" or cookies:  # a session of the author keeps its cookies
        assert sent[5] == ("None=1" if cookies else None)


# -- header lines without a colon -----------------------------------------------------------------

ODD_HEAD = (
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nX-First: 1\r\n"
    b"Warning in line 7\r\n folded\r\n"
    b"X-Last: 2\r\nContent-Length: 4\r\n\r\n"
)


def test_hosts_with_such_headers_are_remembered(site: Site) -> None:
    """A POST must not be sent twice; the next one to the host takes the right path from the
    start."""
    site.raw("/", ODD_HEAD + b"page", keep=True)

    async def main() -> bytes:
        downloader = Downloader(SETTINGS)
        post = Request(f"{site.url}/", method="POST", body="data")
        try:
            with pytest.raises(BadHeader) as caught:
                await downloader.fetch(post, SpiderSettings())
            assert caught.value.reason == "bad_response"
            assert len(site.seen) == 1
            return (await downloader.fetch(post, SpiderSettings())).body
        finally:
            await downloader.close()

    assert uvloop.run(main()) == b"page"
    assert len(site.seen) == 2


def test_redirect_with_such_a_header(site: Site) -> None:
    """Only the transfer that needs it is repeated."""
    site.answer("/form", status=303, headers={"Location": "/", "Set-Cookie": "a=1"})
    site.raw("/", ODD_HEAD + b"page", keep=True)
    response = fetch(
        Request(f"{site.url}/form", method="POST"), None, FetchContext(jar=TaskCookies())
    )
    assert response.body == b"page"
    assert response.redirects == (f"{site.url}/form",)
    assert [got.method for got in site.seen] == ["POST", "GET", "GET"]
    assert site.seen[2].header("Cookie") == "a=1"


# -- memory ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "coding"), [("curl", ""), ("curl", "gzip"), ("requests", "")])
def test_bodies_together_stay_within_the_limit(site: Site, kind: str, coding: str) -> None:
    """Until their callbacks are over; their time-outs are suspended while they wait."""
    size = 6 * MEGABYTE
    body = gzip.compress(bytes(size), 1) if coding else bytes(size)
    site.answer("/", body, headers={"Content-Encoding": coding} if coding else {})
    site.answer("/small", b"small")
    settings = SpiderSettings(downloader=kind, max_body=size, timeout=1.0)

    async def main() -> int:
        downloader = Downloader(Settings(allow_private=LOOPBACK, transfer_memory=12))

        async def page(number: int) -> int:
            with downloader.memory.account() as account:
                request = Request(f"{site.url}/?{number}")
                response = await downloader.fetch(request, settings, FetchContext(account=account))
                assert account.held == size
                await asyncio.sleep(0.3)  # as a callback
                return len(response.body)

        try:
            pages = [asyncio.ensure_future(page(number)) for number in range(6)]
            await asyncio.sleep(0.3)
            assert not all(waiting.done() for waiting in pages)
            small = await downloader.fetch(Request(f"{site.url}/small"), settings)
            assert small.body == b"small"
            assert await asyncio.gather(*pages) == [size] * 6
            assert downloader.memory.held == 0
            return downloader.memory.peak
        finally:
            await downloader.close()

    # One body more than the limit, its last STEP, and the part that never waits.
    assert uvloop.run(main()) <= 12 * MEGABYTE + size + MEGABYTE + 6 * MEGABYTE


@pytest.mark.parametrize("kind", ["curl", "requests"])
def test_cancelled_while_it_waits_for_memory(site: Site, kind: str) -> None:
    site.answer("/", bytes(3 * MEGABYTE))
    settings = SpiderSettings(downloader=kind)

    async def main() -> None:
        downloader = Downloader(Settings(allow_private=LOOPBACK, transfer_memory=3))
        with downloader.memory.account() as holder:
            await downloader.fetch(Request(f"{site.url}/"), settings, FetchContext(account=holder))
            waiting = [
                asyncio.ensure_future(downloader.fetch(Request(f"{site.url}/?{i}"), settings))
                for i in range(4)
            ]
            while not downloader.memory.waiting:
                await asyncio.sleep(0.01)
            for fetch in waiting:
                fetch.cancel()
            results = await asyncio.gather(*waiting, return_exceptions=True)
            assert all(isinstance(result, asyncio.CancelledError) for result in results)
            assert downloader.memory.held == holder.held
        assert downloader.memory.held == 0
        response = await downloader.fetch(Request(f"{site.url}/"), settings)
        assert len(response.body) == 3 * MEGABYTE
        await downloader.close()

    uvloop.run(main())


@pytest.mark.parametrize("kind", ["curl", "requests"])
def test_connection_lost_after_it_had_to_wait_for_memory(site: Site, kind: str) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (3 * MEGABYTE)
    site.raw("/", head + bytes(2 * MEGABYTE))
    settings = SpiderSettings(downloader=kind)

    async def main() -> None:
        downloader = Downloader(Settings(allow_private=LOOPBACK, transfer_memory=3))
        with downloader.memory.account() as holder, downloader.memory.account() as account:
            await holder.reserve(3 * MEGABYTE)
            url = f"{site.url}/"
            fetch = downloader.fetch(Request(url), settings, FetchContext(account=account))
            waiting = asyncio.ensure_future(fetch)
            while not downloader.memory.waiting:
                await asyncio.sleep(0.01)
            holder.close()
            with pytest.raises(ConnectionLost):
                await waiting
            assert account.waited > 0
        await downloader.close()

    uvloop.run(main())


@pytest.mark.parametrize("kind", ["curl", "requests"])
def test_memory_in_advance(site: Site, kind: str) -> None:
    """It connects when there is room for the largest body, also after a redirect."""
    site.answer("/", bytes(MEGABYTE // 2), status=302, headers={"Location": "/there"})
    site.answer("/there", bytes(4 * MEGABYTE))
    settings = SpiderSettings(downloader=kind, max_body=5 * MEGABYTE)

    async def main() -> None:
        downloader = Downloader(Settings(allow_private=LOOPBACK, transfer_memory=6))
        memory = downloader.memory
        with memory.account() as holder, memory.account() as account:
            await holder.reserve(2 * MEGABYTE)
            account.in_advance = True
            url = f"{site.url}/"
            fetch = downloader.fetch(Request(url), settings, FetchContext(account=account))
            waiting = asyncio.ensure_future(fetch)
            while not (memory.waiting or site.seen):
                await asyncio.sleep(0.01)
            assert not site.seen
            holder.settle(MEGABYTE)
            response = await waiting
            assert len(response.body) == account.held == 4 * MEGABYTE
            assert memory.peak == 6 * MEGABYTE
        assert memory.held == 0
        await downloader.close()

    uvloop.run(main())
