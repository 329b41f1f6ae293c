"""Requests through proxies, in a worker: their ways, and the cost of a bad proxy."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from crawlframe import FetchError, Request, Response, Spider
from crawlframe.errors import ConfigError, ConnectError, ProxyAuth, ProxyFailed, ProxyUnreaching
from crawlframe.fetch.downloader import Downloader
from crawlframe.fetch.journey.context import NO_CONTEXT, FetchContext
from crawlframe.frontier.client.records import (
    BLOCKED,
    FAULT,
    LOGIN,
    PROXY_FAILED,
    UNREACHABLE,
    Claimed,
)
from crawlframe.frontier.frontier import REFUSAL
from crawlframe.node.worker.commit.committer import _value
from crawlframe.node.worker.fetch.proxies import ProxySource
from crawlframe.proxies.place import place_of
from crawlframe.proxies.proxy import ChosenProxy
from crawlframe.request.record import Hop
from crawlframe.request.request import make_rid
from crawlframe.run.outcome import Outcome, Verdict
from crawlframe.spider.settings import SpiderSettings
from tests.node.runner import Ready, Tasks

URL = "http://h.example/"
ONE = ChosenProxy(7, "http", "proxy.example", 3128)


class Through(Spider):
    name = "through"
    settings = {"proxy": "pool:eu", "robots": False}

    def parse(self, response: Response) -> Iterator[Any]:
        yield Request("http://h.example/b")
        yield Request("http://other.example/c", proxy=None)
        yield Request("http://other.example/d", proxy="socks5://p.example:1080")
        yield Request("http://other.example/e", session="a")


class Pool(ProxySource):
    """Has one proxy, or says why not."""

    def __init__(self, proxy: ChosenProxy | None = ONE, error: Exception | None = None) -> None:
        self.asked: list[int] = []
        self._proxy, self._error = proxy, error

    async def find(self, proxy: int) -> ChosenProxy | None:
        self.asked.append(proxy)
        if self._error is not None:
            raise self._error
        return self._proxy

    async def any_of(self, choice: str) -> ChosenProxy | None:
        return self._proxy


class Noting(Ready):
    """Notes the proxy of each fetch."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.via: list[ChosenProxy | None] = []

    async def fetch(
        self, request: Request, settings: SpiderSettings, context: FetchContext = NO_CONTEXT
    ) -> Response:
        self.via.append(context.proxy)
        return await super().fetch(request, settings, context)


def run(
    downloader: Downloader,
    pool: ProxySource | None = None,
    *,
    spider: type[Spider] = Through,
    request: Request | None = None,
    route: str = "pool:eu",
    refusals: int = 0,
    attempts: int = 0,
    proxy: int = 7,
) -> Outcome:
    asked = request or Request(URL)
    tasks = Tasks(spider, downloader, proxies=pool or Pool())
    rid = make_rid(tasks.task, asked.fingerprint())
    claimed = Claimed(
        rid, 1, place_of(asked.host, route), attempts, 0, asked.encode(), refusals=refusals,
        proxy=proxy,
    )  # fmt: skip
    return asyncio.run(tasks.take(claimed))


def test_it_goes_through_the_proxy_that_the_claim_gave() -> None:
    downloader, pool = Noting(), Pool()
    outcome = run(downloader, pool)
    assert outcome.verdict is Verdict.DONE
    assert (outcome.host, outcome.route) == ("h.example", "pool:eu")
    assert downloader.via == [ONE]
    assert pool.asked == [7]


def test_follow_ups_wait_at_their_places() -> None:
    outcome = run(Noting())
    assert [admission.host for admission in outcome.results.follow_ups] == [
        "h.example|pool:eu",
        "other.example",
        "other.example|socks5://p.example:1080",
        "other.example|pool:eu#1.a",
    ]


def test_limits_may_hold_over_all_proxies() -> None:
    shared = type("Shared", (Through,), {"name": "s", "settings": {"proxy_limits": "all"}})
    outcome = run(Noting(), spider=shared, route="all;pool:eu")
    assert outcome.results.follow_ups[0].host == "h.example|all;pool:eu"


@pytest.mark.parametrize("route", ["", "pool:us", "http://p.example:1"])
def test_a_request_whose_spider_has_changed_its_choice_moves(route: str) -> None:
    downloader = Noting()
    outcome = run(downloader, route=route, proxy=7 if route == "pool:us" else 0)
    assert outcome.verdict is Verdict.REDIRECT
    assert outcome.target == "h.example|pool:eu"
    assert downloader.asked == []


def test_a_request_may_have_its_own_choice() -> None:
    downloader = Noting()
    fixed = "http://p.example:1"
    outcome = run(downloader, request=Request(URL, proxy=fixed), route=fixed, proxy=0)
    assert outcome.verdict is Verdict.DONE
    assert [str(via) for via in downloader.via] == ["Proxy(0, 'http://p.example:1')"]
    direct = Noting()
    assert run(direct, request=Request(URL, proxy=None), route="", proxy=0).fetch.status == 200
    assert direct.via == [None]


@pytest.mark.parametrize(
    ("error", "signal"),
    [
        (ProxyFailed("gone"), (PROXY_FAILED, FAULT)),
        (ProxyAuth("407"), (PROXY_FAILED, LOGIN)),
        (ProxyUnreaching("no tunnel"), (PROXY_FAILED, 0)),
        (ConnectError("nothing there"), (UNREACHABLE, 0)),
    ],
)
def test_a_bad_proxy_costs_no_try(error: FetchError, signal: tuple[int, int]) -> None:
    outcome = run(Noting(error=error), attempts=2)
    assert (outcome.verdict, outcome.reason) == (Verdict.RELEASE, error.reason)
    assert outcome.fetch.signal[:2] == signal
    assert _value(outcome) == REFUSAL  # counted, so that it ends some time


def test_a_block_goes_through_another_proxy() -> None:
    outcome = run(Noting(403), attempts=2)
    assert (outcome.verdict, outcome.reason) == (Verdict.RELEASE, "http_403")
    assert outcome.fetch.signal[0] == BLOCKED
    assert _value(outcome) == REFUSAL


@pytest.mark.parametrize(
    ("downloader", "refusals"),
    [(Noting(403), 19), (Noting(error=ProxyFailed("x")), 19), (Noting(error=ConnectError("x")), 4)],
)
def test_detours_end(downloader: Noting, refusals: int) -> None:
    outcome = run(downloader, refusals=refusals - 1)
    assert outcome.verdict is Verdict.RELEASE
    outcome = run(downloader, refusals=refusals, attempts=2)
    assert outcome.verdict is Verdict.ERROR


def test_without_a_pool_a_block_is_what_it_was() -> None:
    direct = run(Noting(403), request=Request(URL, proxy=None), route="", proxy=0)
    assert (direct.verdict, direct.reason) == (Verdict.ERROR, "http_403")
    fixed = "http://p.example:1"
    asked = Request(URL, proxy=fixed)
    alone = run(Noting(error=ProxyFailed("x")), request=asked, route=fixed, proxy=0)
    assert alone.verdict is Verdict.RETRY


def test_a_proxy_that_is_gone_costs_nothing() -> None:
    downloader = Noting()
    outcome = run(downloader, Pool(None))
    assert (outcome.verdict, outcome.reason) == (Verdict.DEFER, "proxy")
    assert downloader.asked == []


def test_a_node_that_cannot_read_the_credentials_waits() -> None:
    outcome = run(Noting(), Pool(error=ConfigError("another key")))
    assert (outcome.verdict, outcome.detail) == (Verdict.DEFER, "another key")


def test_limits_of_addresses_are_refused_with_a_proxy_of_the_request() -> None:
    limited = type(
        "Limited", (Spider,), {
            "name": "l", "settings": {"ip": {"delay": 1}, "robots": False},
            "parse": Through.parse,
        },
    )  # fmt: skip
    outcome = run(Noting(), spider=limited, request=Request(URL, proxy="pool"), route="pool")
    assert (outcome.verdict, outcome.reason) == (Verdict.ERROR, "bad_request")
    assert "do not fit with a proxy" in outcome.detail


def test_the_target_of_a_redirect_has_the_same_route() -> None:
    outcome = Outcome(b"", 1, "h.example", b"", 0, 0, route="pool:eu")
    outcome.fetch.redirects = [Hop(302, "http://other.example/")]
    assert outcome.place_of("other.example") == "other.example|pool:eu"
    assert not outcome.lends("h.example")
    assert outcome.lends("h.example", "pool:eu")


def test_a_blocked_session_loses_its_cookies() -> None:
    tasks: Any = Tasks(Through, Noting(403), proxies=Pool())
    asked = Request(URL, session="a")
    rid = make_rid(1, asked.fingerprint())
    claimed = Claimed(rid, 1, "h.example|pool:eu#1.a", 0, 0, asked.encode(), proxy=7)

    async def main() -> Outcome:
        crawl = await tasks.runner.crawls.get(1, rid)
        crawl.cookies.absorb(URL, ["a=1"], "a")
        crawl.cookies.absorb(URL, ["b=2"])
        assert crawl.cookies.header_for(URL, session="a") == "a=1"
        outcome: Outcome = await tasks.take(claimed)
        assert crawl.cookies.header_for(URL, session="a") is None
        assert crawl.cookies.header_for(URL) == "b=2"
        return outcome

    outcome = asyncio.run(main())
    assert outcome.fetch.cookies is not None
    assert outcome.fetch.cookies["a/h.example|/|a"] == ""


def test_a_middleware_does_not_choose_the_proxy() -> None:
    class Other:
        async def fetch(self, request: Request, call_next: Any) -> Response:
            response: Response = await call_next(request.replace(proxy=None))
            return response

    own = type("Own", (Through,), {"name": "own", "middlewares": [Other]})
    downloader = Noting()
    outcome = run(downloader, spider=own)
    assert (outcome.verdict, outcome.reason) == (Verdict.ERROR, "middleware")
    assert "must not change proxy" in outcome.detail
    assert downloader.asked == []
