"""Redirects in a worker: each hop is another claim, and the callback sees none of that."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, ClassVar

import msgpack
import pytest
from multidict import CIMultiDict

from crawlframe import CallNext, FetchError, Request, Response, Spider, SyncCallNext
from crawlframe.conf import Settings
from crawlframe.fetch.downloader import Downloader
from crawlframe.fetch.journey.journey import MAX_PASSED, Answer, Journey
from crawlframe.frontier.client.records import Claimed, TaskView
from crawlframe.frontier.reservations import Target
from crawlframe.node.worker.fetch.permits import LocalPermits
from crawlframe.request.record import Hop, hops_of, with_hops
from crawlframe.request.request import make_rid
from crawlframe.run.outcome import Outcome, Verdict
from crawlframe.run.reasons import DUPLICATE
from tests.node.runner import HERE, Tasks, items

A, B, C = "http://a.example", "http://b.example", "https://c.example"
SECRETS = {"Authorization": "own", "X-Own": "1"}


class Web(Downloader):
    """``pages``: URL -> (status, Location), or a status; others are 200. ``sent``: everything that
    was sent, without the defaults of all requests."""

    def __init__(self, pages: dict[str, Any]) -> None:
        super().__init__(Settings())
        self.pages = pages
        self.cookies: dict[str, str] = {}  # URL -> Set-Cookie
        self.sent: list[tuple[str, str, bytes | None, dict[str, str]]] = []

    async def _transfer(self, journey: Journey) -> Answer:
        defaults = ("User-Agent", "Accept", "Accept-Language", "Accept-Encoding")
        headers = {k: v for k, v in journey.headers_to_send() if k not in defaults}
        self.sent.append((journey.url, journey.method, journey.body, headers))
        page = self.pages.get(journey.url, 200)
        status, location = page if isinstance(page, tuple) else (page, "")
        journey.send_time.sent()
        answer: CIMultiDict[str] = CIMultiDict({"Location": location} if location else {})
        if journey.url in self.cookies:
            answer["Set-Cookie"] = self.cookies[journey.url]
        return Answer(status, answer, b"body")

    @property
    def urls(self) -> list[str]:
        return [url for url, *_ in self.sent]


class Hopper(Spider):
    name = "hopper"
    settings: ClassVar[dict[str, Any]] = {"headers": {"authorization": "all", "X-All": "1"}}

    def start(self) -> None: ...

    def parse(self, response: Response) -> Iterator[Any]:
        yield {
            "url": response.url,
            "asked": response.request.url,
            "method": response.request.method,
            "passed": list(response.redirects),
            "meta": response.meta,
            "status": response.status,
        }
        if response.meta.get("again"):
            request = response.request
            request.dont_filter = True
            yield request

    def sorry(self, error: FetchError) -> Iterator[Any]:
        answer = error.response
        yield {"url": error.request.url, "of": answer and answer.request.url}


def spider_with(*middlewares: Any, **settings: Any) -> type[Spider]:
    return type("More", (Hopper,), {"middlewares": middlewares, "settings": settings})


class Way:
    """The claims of one request, as the frontier makes them. ``moves``: as of a worker."""

    def __init__(
        self,
        pages: dict[str, Any],
        spider: type[Spider] = Hopper,
        moves: Callable[[str, str], bool] = lambda host, target: True,
        permits: LocalPermits | None = None,
    ) -> None:
        self.web = Web(pages)
        self.over: list[str] = []  # hosts of fetches that are over
        self.outcomes: list[Outcome] = []
        self.tasks = Tasks(
            spider,
            self.web,
            settings=HERE,
            fetched=lambda claimed, signal: self.over.append(claimed.host),
            moves=moves,
            permits=permits,
        )

    def run(self, request: Request, most: int = 50) -> Outcome:
        """The outcome of the last of at most so many claims."""

        async def claims() -> None:
            rid, host, record = make_rid(1, request.fingerprint()), request.host, request.encode()
            for _ in range(most):
                claimed = Claimed(rid, 1, host, 0, 0, record)
                outcome = await self.tasks.take(claimed)
                self.outcomes.append(outcome)
                if outcome.verdict is not Verdict.REDIRECT:
                    return
                host, record = outcome.target, outcome.record

        asyncio.run(claims())
        return self.outcomes[-1]


def test_each_hop_is_a_claim() -> None:
    way = Way({f"{A}/1": (301, "/2"), f"{A}/2": (302, f"{B}/3")})
    last = way.run(Request(f"{A}/1", meta={"k": 1}))
    assert [outcome.verdict for outcome in way.outcomes] == ["redirect", "redirect", "done"]
    assert [outcome.host for outcome in way.outcomes] == ["a.example", "a.example", "b.example"]
    assert way.web.urls == [f"{A}/1", f"{A}/2", f"{B}/3"]
    assert way.over == ["a.example", "a.example", "b.example"]
    assert last.url == f"{A}/1"
    assert last.fetch.redirects == [Hop(301, f"{A}/2"), Hop(302, f"{B}/3")]
    assert items(last) == [
        {
            "url": f"{B}/3",
            "asked": f"{A}/1",
            "method": "GET",
            "passed": [f"{A}/1", f"{A}/2"],
            "meta": {"k": 1},
            "status": 200,
        }
    ]
    assert {outcome.rid for outcome in way.outcomes} == {last.rid}


WAYS = [(A, A, A), (A, B, B), (A, A, B), (A, B, A), (C, A, C)]


@pytest.mark.parametrize(
    ("method", "first", "then", "hosts"),
    [  # all methods after all redirects, and each way of hosts with each of them once
        (method, first, then, WAYS[(m + f + 2 * t) % 5])
        for m, method in enumerate(["GET", "HEAD", "POST", "PUT", "DELETE"])
        for f, first in enumerate([301, 302, 303, 307, 308])
        for t, then in enumerate([303, 307])
    ],
)
def test_the_same_is_sent_as_in_one_fetch(
    method: str, first: int, then: int, hosts: tuple[str, str, str]
) -> None:
    """Methods, bodies, headers and cookies, also the spider's, after any redirect."""
    urls = [f"{host}/{n}" for n, host in enumerate(hosts)]
    pages = {urls[0]: (first, urls[1]), urls[1]: (then, urls[2])}
    body = b"data" if method in ("POST", "PUT") else None
    request = Request(
        urls[0],
        method=method,
        body=body,
        headers={"Content-Type": "text/x", "X-Own": "1", "Cookie2": "c"},
        cookies={"own": "1"},
    )
    apart = Way(pages)
    apart.run(request)
    at_once = Way(pages, moves=lambda host, target: False)
    at_once.run(request)
    assert len(apart.outcomes) == 3
    assert len(at_once.outcomes) == 1
    assert apart.web.sent == at_once.web.sent
    assert apart.outcomes[-1].fetch.redirects == at_once.outcomes[-1].fetch.redirects
    assert items(apart.outcomes[-1]) == items(at_once.outcomes[-1])


def test_secrets_do_not_come_back() -> None:
    """Headers dropped for another host are not sent to the first host either."""
    way = Way({f"{A}/1": (302, f"{B}/2"), f"{B}/2": (302, f"{A}/3")})
    way.run(Request(f"{A}/1", headers={"Cookie": "a=1", "X-Own": "1"}))
    names = [sorted(headers) for *_, headers in way.web.sent]
    assert names == [
        ["Cookie", "X-All", "X-Own", "authorization"],
        ["X-All", "X-Own"],
        ["X-All", "X-Own"],
    ]


def test_some_hops_in_the_same_claim() -> None:
    """With several partitions: hops to a host of another partition end the claim."""
    pages = {f"{A}/1": (301, f"{B}/2"), f"{B}/2": (302, f"{B}/3"), f"{B}/3": (303, f"{C}/4")}
    way = Way(pages, moves=lambda host, target: target != "b.example")
    last = way.run(Request(f"{A}/1"))
    assert [outcome.host for outcome in way.outcomes] == ["a.example", "c.example"]
    assert last.fetch.redirects == [Hop(301, f"{B}/2"), Hop(302, f"{B}/3"), Hop(303, f"{C}/4")]
    assert items(last)[0]["passed"] == [f"{A}/1", f"{B}/2", f"{B}/3"]


def test_by_itself_a_runner_follows_them() -> None:
    """As for parse and crawlframe.testing."""
    web = Web({f"{A}/1": (301, f"{B}/2")})
    outcome = asyncio.run(Tasks(Hopper, web).run(Request(f"{A}/1")))
    assert (outcome.verdict, outcome.fetch.redirects) == (Verdict.DONE, [Hop(301, f"{B}/2")])


# -- ends ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "options", "fetches"), [({"max_redirects": 3}, {}, 4), ({}, {"redirects": 1}, 2)]
)
def test_a_loop_ends(settings: dict[str, Any], options: dict[str, Any], fetches: int) -> None:
    way = Way({f"{A}/": (302, f"{B}/"), f"{B}/": (302, f"{A}/")}, spider_with(**settings))
    last = way.run(Request(f"{A}/", **options))
    assert (last.verdict, last.reason) == (Verdict.ERROR, "too_many_redirects")
    assert f"redirected from {A}/" in last.detail
    assert len(way.web.sent) == fetches
    assert len(last.fetch.redirects) == fetches - 1


def test_a_redirect_that_is_not_followed_is_the_response() -> None:
    way = Way({f"{A}/": (302, f"{B}/")})
    last = way.run(Request(f"{A}/", redirects=0))
    assert len(way.outcomes) == 1
    assert items(last)[0]["status"] == 302


@pytest.mark.parametrize("target", ["ftp://a.example/", "http://elsewhere.example/"])
def test_a_target_that_may_not_be_fetched(target: str) -> None:
    spider = type("Home", (Hopper,), {"allowed_domains": ("a.example",)})
    way = Way({f"{A}/1": (302, "/2"), f"{A}/2": (302, target)}, spider)
    last = way.run(Request(f"{A}/1"))
    assert (last.verdict, last.reason) == (Verdict.ERROR, "bad_redirect")
    assert (len(way.outcomes), last.fetch.redirects) == (2, [Hop(302, f"{A}/2")])


def test_urls_of_any_length_do_not_fill_the_record() -> None:
    longer = [f"{A}/{'x' * (MAX_PASSED // 4)}{n}" for n in range(9)]
    way = Way({url: (302, target) for url, target in pairwise(longer)})
    last = way.run(Request(longer[0]))
    assert (last.reason, len(way.outcomes)) == ("bad_redirect", 4)
    assert "characters" in last.detail


def test_a_status_at_the_end_of_a_chain() -> None:
    way = Way({f"{A}/": (302, f"{B}/"), f"{B}/": 404})
    last = way.run(Request(f"{A}/", errback="sorry"))
    assert (last.reason, last.fetch.status) == ("http_404", 404)
    assert last.fetch.redirects == [Hop(302, f"{B}/")]
    assert items(last) == [{"url": f"{A}/", "of": f"{A}/"}]


def test_a_retry_is_one_of_the_hop() -> None:
    way = Way({f"{A}/": (302, f"{B}/"), f"{B}/": 500})
    last = way.run(Request(f"{A}/"))
    assert (last.verdict, last.host) == (Verdict.RETRY, "b.example")
    assert hops_of(last.record) == [Hop(302, f"{B}/")]


@pytest.mark.parametrize(("state", "deliveries"), [("cancelling", 0), ("running", 99)])
def test_a_hop_that_does_not_run_has_its_redirects(state: str, deliveries: int) -> None:
    record = with_hops(Request(f"{A}/").encode(), [Hop(302, f"{B}/")])
    claimed = Claimed(b"r" * 16, 1, "b.example", 0, deliveries, record)
    outcome = asyncio.run(Way({}).tasks.take(claimed, TaskView(state, 0)))
    assert outcome.verdict is Verdict.ERROR
    assert (outcome.url, outcome.fetch.redirects) == (f"{A}/", [Hop(302, f"{B}/")])


@pytest.mark.parametrize("hops", [None, 5, [[301]], [["301", "http://a"]], [[301, 302]], {}])
def test_redirects_that_cannot_be_read(hops: Any) -> None:
    extra = {} if hops == {} else {"hops": hops}
    record = msgpack.packb([4, f"{A}/", "", 0, extra])
    outcome = asyncio.run(Way({}).tasks.take(Claimed(b"r" * 16, 1, "b.example", 0, 0, record)))
    assert (outcome.verdict, outcome.reason) == (Verdict.ERROR, "bad_request")
    assert "redirects" in outcome.detail
    assert outcome.url == f"{A}/"


def test_the_request_yielded_again_starts_over() -> None:
    way = Way({f"{A}/": (302, f"{B}/")})
    last = way.run(Request(f"{A}/", meta={"again": True}))
    [again] = last.results.follow_ups
    assert again.host == "a.example"
    assert hops_of(again.record) == []
    assert Request.decode(again.record).url == f"{A}/"


# -- cookies ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("session", [None, "ben"])
def test_cookies_of_a_hop_are_shared_before_the_next(session: str | None) -> None:
    way = Way({f"{A}/login": (303, "/home")})
    way.web.cookies[f"{A}/login"] = "sid=7"
    way.run(Request(f"{A}/login", session=session))
    assert way.outcomes[0].fetch.cookies
    key, entry = next(iter(way.outcomes[0].fetch.cookies.items()))
    assert key == f"{'ben/' if session else ''}a.example|/|sid"
    assert "7" in entry
    assert not way.outcomes[1].fetch.cookies
    assert [headers.get("Cookie") for *_, headers in way.web.sent] == [None, "sid=7"]


# -- middlewares -----------------------------------------------------------------------------------


class Cautious:
    """A middleware that notes its requests, and expects errors of others."""

    seen: ClassVar[list[Any]] = []

    async def fetch(self, request: Request, call_next: CallNext) -> Response:
        try:
            self.seen.append((request.url, request.method))
            response = await call_next(self.signed(request))
        except FetchError:
            self.seen.append("FetchError")
            raise
        except Exception:
            self.seen.append("Exception")
            raise
        self.seen.append(response.status)
        return response

    def signed(self, request: Request) -> Request:
        return request.replace(headers={**request.headers, "Authorization": request.url})


class CautiousInThread(Cautious):
    def fetch(self, request: Request, call_next: SyncCallNext) -> Response:  # type: ignore[override]
        try:
            self.seen.append((request.url, request.method))
            response = call_next(self.signed(request))
        except Exception as error:
            self.seen.append(type(error))
            raise
        self.seen.append(response.status)
        return response


@pytest.mark.parametrize("moves", [True, False])
def test_what_a_middleware_changes_is_for_one_hop(moves: bool) -> None:
    class Signing:
        async def fetch(self, request: Request, call_next: CallNext) -> Response:
            request.headers[f"For-{request.host}"] = "signed"
            request.meta[request.host] = 1
            return await call_next(request)

    way = Way({f"{A}/1": (302, f"{B}/2")}, spider_with(Signing), lambda host, target: moves)
    last = way.run(Request(f"{A}/1"))
    signed = [{name for name in headers if name.startswith("For")} for *_, headers in way.web.sent]
    assert signed == [{"For-a.example"}, {"For-b.example"}]
    assert items(last)[0]["meta"] == {"b.example": 1}


@pytest.mark.parametrize("kind", [Cautious, CautiousInThread])
@pytest.mark.parametrize("moves", [True, False])
def test_a_middleware_sees_each_hop_as_a_request(kind: Any, moves: bool) -> None:
    """Its headers for another host are not dropped, for it has seen the host."""
    kind.seen.clear()
    pages = {f"{A}/1": (303, f"{B}/2")}
    way = Way(pages, spider_with(kind, Cautious), lambda host, target: moves)
    last = way.run(Request(f"{A}/1", method="POST", body=b"x", headers=SECRETS))
    assert last.verdict is Verdict.DONE
    assert kind.seen == [(f"{A}/1", "POST")] * 2 + [(f"{B}/2", "GET")] * 2 + [200] * 2
    assert [headers["Authorization"] for *_, headers in way.web.sent] == [f"{A}/1", f"{B}/2"]
    assert items(last)[0]["asked"] == f"{A}/1"
    assert items(last)[0]["method"] == "POST"
    assert items(last)[0]["passed"] == [f"{A}/1"]


def test_a_middleware_may_not_leave_the_host_of_the_hop() -> None:
    class Back:
        async def fetch(self, request: Request, call_next: CallNext) -> Response:
            return await call_next(request.replace(url=f"{A}/x"))

    last = Way({f"{A}/x": (303, f"{B}/2")}, spider_with(Back)).run(Request(f"{A}/1"))
    assert (last.verdict, last.reason) == (Verdict.ERROR, "middleware")
    assert "from b.example to a.example" in last.detail
    assert last.fetch.redirects == [Hop(303, f"{B}/2")]


def test_a_middleware_may_stop_at_a_hop() -> None:
    class Stops:
        async def fetch(self, request: Request, call_next: CallNext) -> Response:
            stop = {"redirects": 0} if request.url.endswith("/2") else {}
            return await call_next(request.replace(**stop))

    way = Way({f"{A}/1": (303, f"{B}/2"), f"{B}/2": (302, f"{C}/3")}, spider_with(Stops))
    last = way.run(Request(f"{A}/1"))
    assert items(last)[0] == {
        "url": f"{B}/2",
        "asked": f"{A}/1",
        "method": "GET",
        "passed": [f"{A}/1"],
        "meta": {},
        "status": 302,
    }


def test_what_a_middleware_answers_at_a_hop() -> None:
    class Cache:
        async def fetch(self, request: Request, call_next: CallNext) -> Response:
            if request.url == f"{A}/1":
                return await call_next(request)
            request.meta["kept"] = True
            return Response(request.url, 200, {}, b"kept", request)

    way = Way({f"{A}/1": (303, f"{B}/2")}, spider_with(Cache))
    last = way.run(Request(f"{A}/1"))
    assert way.web.urls == [f"{A}/1"]
    assert items(last)[0]["passed"] == [f"{A}/1"]
    assert (items(last)[0]["asked"], items(last)[0]["meta"]) == (f"{A}/1", {"kept": True})


def test_a_middleware_that_fetches_twice() -> None:
    """Each of its fetches starts at the same URL, at a hop of the same claim too."""

    class Twice:
        async def fetch(self, request: Request, call_next: CallNext) -> Response:
            await call_next(request)
            return await call_next(request)

    way = Way(
        {f"{A}/1": (303, f"{B}/2"), f"{B}/2": (302, f"{B}/3")},
        spider_with(Twice),
        moves=lambda host, target: host != target,
    )
    last = way.run(Request(f"{A}/1"))
    assert way.web.urls == [f"{A}/1", f"{B}/2", f"{B}/3", f"{B}/3"]
    assert last.fetch.redirects == [Hop(303, f"{B}/2"), Hop(302, f"{B}/3")]


class Frontier(LocalPermits):
    """Knows the targets of these URLs, and how often each was asked for."""

    def __init__(self, *known: str, busy: str = "") -> None:
        super().__init__()
        self.known, self.busy = {rid_of(url) for url in known}, rid_of(busy or A)
        self.asked: list[str] = []

    async def follow(self, target: Target) -> int:
        self.asked.append(target.url)
        return -1 if target.target in self.known else 700 * (target.target == self.busy)


def rid_of(url: str) -> bytes:
    return make_rid(1, Request(url).fingerprint())


MOVED = {f"{A}/1": (301, "/2"), f"{A}/2": (308, f"{B}/3")}


@pytest.mark.parametrize("moves", [True, False])
def test_a_page_that_the_task_has_is_not_fetched_again(moves: bool) -> None:
    frontier = Frontier(f"{B}/3")
    way = Way(MOVED, moves=lambda host, target: moves, permits=frontier)
    last = way.run(Request(f"{A}/1"))
    assert (last.verdict, last.reason, last.results.duplicates) == ("done", DUPLICATE, 1)
    assert (last.results.items, last.fetch.landing, last.fetch.status) == ([], None, 308)
    assert way.web.urls == [f"{A}/1", f"{A}/2"]
    assert frontier.asked == [f"{A}/2", f"{B}/3"]


def test_one_that_another_request_fetches_is_waited_for() -> None:
    way = Way(MOVED, permits=Frontier(busy=f"{B}/3"))
    last = way.run(Request(f"{A}/1"))
    assert (last.verdict, last.delay, last.fetch.landing) == ("defer", 700, None)
    assert hops_of(last.record) == [Hop(301, f"{A}/2"), Hop(308, f"{B}/3")]  # continued there


def test_the_last_target_counts_as_admitted() -> None:
    last = Way(MOVED, permits=Frontier()).run(Request(f"{A}/1"))
    assert last.fetch.landing == (rid_of(f"{B}/3"), f"{B}/3")
    failed = Way({**MOVED, f"{B}/3": 404}, permits=Frontier()).run(Request(f"{A}/1"))
    assert failed.verdict == "error"


@pytest.mark.parametrize("request_", [Request(f"{A}/1", dont_filter=True)])
def test_one_that_is_not_filtered_goes_anywhere(request_: Request) -> None:
    frontier = Frontier(f"{A}/2", f"{B}/3")
    last = Way(MOVED, permits=frontier).run(request_)
    assert (last.verdict, last.reason, last.fetch.landing, frontier.asked) == ("done", "", None, [])


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_method_kept_by_a_redirect_makes_another_target(method: str, status: int) -> None:
    """A POST that becomes a GET leads to the page of a link, one that stays a POST does not."""
    frontier = Frontier(f"{A}/2")
    request = Request(f"{A}/1", method=method, body=b"x" if method == "POST" else None)
    last = Way({f"{A}/1": (status, "/2#top")}, permits=frontier).run(request)
    kept = method == "POST" and status in (307, 308)
    assert last.reason == ("" if kept else DUPLICATE)
    if kept:
        again = Request(f"{A}/2", method="POST", body=b"x")
        assert last.fetch.landing == (make_rid(1, again.fingerprint()), f"{A}/2")


@pytest.mark.parametrize("wall", [f"{A}/1", f"{A}/wall", f"{B}/wall"])
def test_a_page_behind_a_cookie_comes_through(wall: str) -> None:
    class Wall(Web):
        async def _transfer(self, journey: Journey) -> Answer:
            if any(name == "Cookie" for name, _ in journey.headers_to_send()):
                self.pages = {**self.pages, f"{A}/1": 200}
            return await super()._transfer(journey)

    frontier = Frontier(f"{A}/1")
    way = Way({f"{A}/1": (302, wall), wall: (302, f"{A}/1")}, permits=frontier)
    way.web.__class__ = Wall
    way.web.cookies = {f"{A}/1": "seen=1"}
    last = way.run(Request(f"{A}/1"))
    assert (last.verdict, last.reason, last.fetch.landing) == ("done", "", None)
    assert [item["url"] for item in items(last)] == [f"{A}/1"]
    assert frontier.asked == ([] if wall == f"{A}/1" else [wall])
