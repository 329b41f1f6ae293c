"""One page as a node would fetch it, through the middlewares of a spider."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from crawlframe import CallNext, Request, Response, Spider
from crawlframe.conf import Settings
from crawlframe.errors import CrawlframeError, RobotsForbidden, RobotsUnread
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
