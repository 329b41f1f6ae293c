"""Downloader: which client fetches, with which headers and limits."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest
import requests
import uvloop

from crawlframe.conf import Settings
from crawlframe.errors import BadRedirect, BodyTooLarge, FetchTimeout, TooManyRedirects
from crawlframe.fetch.cookies import TaskCookies
from crawlframe.fetch.decoding import ACCEPTED
from crawlframe.fetch.downloader import Downloader
from crawlframe.request import Request
from crawlframe.response import Response
from crawlframe.spider import Spider, SpiderSettings

from .conftest import LOOPBACK, Exchange, Site

SETTINGS = Settings(allow_private=LOOPBACK, user_agent="Node/1")


def fetch(request: Request | str, settings: SpiderSettings | None = None, *rest: Any) -> Response:
    asked = Request(request) if isinstance(request, str) else request

    async def main() -> Response:
        downloader = Downloader(SETTINGS)
        try:
            return await downloader.fetch(asked, settings or SpiderSettings(), *rest)
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
    response = fetch(request, SpiderSettings(downloader=of_spider), Login())
    assert response.body == b"here"
    assert response.request is request
    assert site.seen[0].header("X-Session") == ("author" if used == "requests" else None)


@pytest.mark.parametrize("downloader", ["curl", "requests"])
def test_limits_of_the_spider(site: Site, downloader: str) -> None:
    @site.on("/slow")
    async def slow(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 200 OK\r\n")
        await asyncio.sleep(60)

    site.answer("/big", b"x" * 100)
    site.answer("/loop", status=302, headers={"Location": "/loop"})
    with pytest.raises(FetchTimeout):
        fetch(f"{site.url}/slow", SpiderSettings(timeout=0.2, downloader=downloader))
    with pytest.raises(BodyTooLarge):
        fetch(f"{site.url}/big", SpiderSettings(max_body=99, downloader=downloader))
    with pytest.raises(TooManyRedirects, match="more than 2"):
        fetch(f"{site.url}/loop", SpiderSettings(max_redirects=2, downloader=downloader))
    site.seen.clear()
    with pytest.raises(TooManyRedirects, match="more than 0"):
        fetch(f"{site.url}/loop", SpiderSettings(max_redirects=0, downloader=downloader))
    assert len(site.seen) == 1


@pytest.mark.parametrize("downloader", ["curl", "requests"])
def test_jar_and_hosts_are_passed_on(site: Site, downloader: str) -> None:
    site.answer("/", status=302, headers={"Location": "http://localhost/", "Set-Cookie": "a=1"})
    jar = TaskCookies()
    settings = SpiderSettings(downloader=downloader)
    with pytest.raises(BadRedirect):
        fetch(f"{site.url}/", settings, None, jar, lambda hostname: hostname != "localhost")
    assert jar.header_for(f"{site.url}/") == "a=1"


def test_requests_are_only_imported_when_used() -> None:

    code = "import sys; import crawlframe.fetch.downloader; assert 'requests' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
