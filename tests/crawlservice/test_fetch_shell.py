"""One page as a node would fetch it, through the middlewares of a spider."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from crawlframe import CallNext, Request, Response, Spider
from crawlframe.base.secret import Secret
from crawlframe.base.urls import host_of
from crawlframe.conf import Settings
from crawlframe.errors import (
    BadRedirect,
    CrawlframeError,
    RobotsForbidden,
    RobotsUnread,
    TooManyRedirects,
)
from crawlframe.identity.credentials import Credential
from crawlframe.identity.identity import Identity, Papers
from crawlframe.identity.signing import make, read
from crawlservice.cli.fetch_shell import PageFetcher, names_of
from tests.fetch.conftest import LOOPBACK, Site, _server, site

__all__ = ("_server", "site")


class Answering:
    async def fetch(self, request: Request, call_next: CallNext) -> Response:
        return Response(request.url, 200, {}, b"made here", request)


class Broken:
    async def fetch(self, request: Request, call_next: CallNext) -> Response:
        raise KeyError("token")


def fetch(middleware: Any) -> Response:
    class Shop(Spider):
        name = "shop"
        middlewares: ClassVar[Any] = [middleware]

    return PageFetcher(Settings(), Shop()).fetch("http://shop.example/")


def test_it_goes_through_the_middlewares_of_the_spider() -> None:
    assert fetch(Answering).body == b"made here"


class Plain(Spider):
    name = "plain"
    settings: ClassVar[dict[str, Any]] = {"user_agent": "plainbot/1"}


@pytest.mark.parametrize("robots", [True, False])
def test_robots_txt_is_asked_if_one_wants_it(site: Site, robots: bool) -> None:
    site.answer("/robots.txt", b"User-agent: plainbot\nDisallow: /no\nCrawl-delay: 4\n")
    site.answer("/yes", b"fine")
    site.answer("/no", b"fine")
    site.answer("/moved", status=302, headers={"Location": "/no"})
    fetcher = PageFetcher(Settings(allow_private=LOOPBACK), Plain(), robots=robots)
    assert fetcher.fetch(f"{site.url}/yes").robots.crawl_delay == (4 if robots else 0)
    for path in ("/no", "/moved"):
        if robots:
            with pytest.raises(RobotsForbidden, match=r"robots.txt forbids .*/no to plainbot"):
                fetcher.fetch(f"{site.url}{path}")
        else:
            assert fetcher.fetch(f"{site.url}{path}").ok
    assert any(one.target == "/robots.txt" for one in site.seen) == robots
    site.answer("/robots.txt", status=503)
    if robots:
        with pytest.raises(RobotsUnread, match="answered 503"):
            fetcher.fetch(f"{site.url}/yes")


class Signing:
    """Signs a URL, as a middleware of an author would."""

    async def fetch(self, request: Request, call_next: CallNext) -> Response:
        request.headers["Signature-Of"] = request.url
        request.headers["Authorization"] = f"token for {request.host}"
        request.meta["signed"] = request.meta.get("signed", 0) + 1
        return await call_next(request)


class Signed(Spider):
    name = "signed"
    middlewares: ClassVar[Any] = [Signing]


def test_each_hop_of_a_redirect_goes_through_the_middlewares(site: Site) -> None:
    elsewhere = site.url.replace("127.0.0.1", "localhost")
    site.answer("/old", status=301, headers={"Location": "/new", "Set-Cookie": "seen=1"})
    site.answer("/new", status=302, headers={"Location": f"{elsewhere}/there"})
    site.answer("/there", b"fine")
    response = PageFetcher(Settings(allow_private=LOOPBACK), Signed()).fetch(f"{site.url}/old")
    urls = [f"{site.url}/old", f"{site.url}/new", f"{elsewhere}/there"]
    assert [one.header("Signature-Of") for one in site.seen] == urls
    assert [one.header("Authorization") for one in site.seen] == [
        f"token for {host_of(url)}" for url in urls
    ]
    assert [one.header("Cookie") for one in site.seen] == [None, "seen=1", None]
    assert (response.url, response.body) == (urls[2], b"fine")
    assert (response.redirects, response.request.url) == (tuple(urls[:2]), urls[0])
    assert "Authorization" not in response.request.headers
    assert response.meta == {"signed": 1}


@pytest.mark.parametrize("client", ["curl", "requests"])
def test_each_hop_is_signed_and_logged_in_for_its_own_host(site: Site, client: str) -> None:
    elsewhere = site.url.replace("127.0.0.1", "localhost")
    site.answer("/old", status=301, headers={"Location": f"{elsewhere}/there"})
    site.answer("/there", b"fine")
    identity = Identity("https://bot.example")
    logins = [Credential(host_of(f"{url}/"), "bearer", "", Secret(f"for-{n}"), True)
              for n, url in enumerate((site.url, elsewhere))]  # fmt: skip
    identity.load(Papers((read(make(), 0),), tuple(logins)))
    settings = Settings(allow_private=LOOPBACK)
    PageFetcher(settings, None, client, identity=identity).fetch(f"{site.url}/old")
    sent = [one.header("Authorization") for one in site.seen]
    assert sent == ["Bearer for-0", "Bearer for-1"]
    assert len({one.header("Signature") for one in site.seen} - {None}) == 2


def test_a_redirect_stays_within_what_the_spider_allows(site: Site) -> None:
    class Local(Plain):
        allowed_domains: ClassVar[Any] = ["127.0.0.1"]

    elsewhere = site.url.replace("127.0.0.1", "localhost")
    site.answer("/loop", status=302, headers={"Location": "/loop"})
    site.answer("/away", status=302, headers={"Location": f"{elsewhere}/"})
    fetcher = PageFetcher(Settings(allow_private=LOOPBACK), Local())
    with pytest.raises(BadRedirect, match="/, outside allowed_domains"):
        fetcher.fetch(f"{site.url}/away")
    with pytest.raises(TooManyRedirects, match="more than 10 redirects"):
        fetcher.fetch(f"{site.url}/loop")


def test_the_middleware_that_failed_is_named() -> None:
    with pytest.raises(CrawlframeError, match="middleware Broken: KeyError: 'token'"):
        fetch(Broken)


def test_the_prompt_has_what_one_needs(site: Site) -> None:
    site.answer("/a", b"one", headers={"Set-Cookie": "a=1"})
    site.answer("/b", b"two")
    fetcher = PageFetcher(Settings(allow_private=LOOPBACK), Plain())
    names = names_of(fetcher, fetcher.fetch(f"{site.url}/a"))
    assert names["settings"].user_agent == "plainbot/1"
    assert isinstance(names["spider"], Plain)
    fetched = names["fetch"](Request(f"{site.url}/b", headers={"X-Own": "yes"}))
    assert fetched is names["response"]
    assert (names["response"].body, names["request"].url) == (b"two", f"{site.url}/b")
    sent = dict(site.seen[-1].headers)
    assert (sent["X-Own"], sent["Cookie"]) == ("yes", "a=1")
    names["fetch"](f"{site.url}/a")
    assert names["response"].body == b"one"
    assert names_of(fetcher, None)["response"] is None
