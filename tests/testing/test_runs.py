"""run: a method of a spider runs as in a node, and its result is as a node would store it."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import date
from typing import Any, ClassVar

import pytest

from crawlframe import (
    CallNext,
    CloseTask,
    DropItem,
    FetchError,
    Request,
    Response,
    Retry,
    Spider,
    Summary,
    SyncCallNext,
    TaskInfo,
)
from crawlframe.errors import ArgumentError, BadRequest, ConnectionLost, SpiderError, TooDeep
from crawlframe.testing import make_response, make_summary, run

URL = "https://shop.example/a"
PAGE = make_response(URL, html="<h1>Lamp</h1><b>12</b><a href=/b>b</a><a href=/b>b</a><a href=/c>")


@dataclass
class Book:
    title: str | None
    seen: date


class Signing:
    async def fetch(self, request: Request, call_next: CallNext) -> Response:
        request.headers["Token"] = "new"
        return await call_next(request)


class Blocking:
    def fetch(self, request: Request, call_next: SyncCallNext) -> Response:
        response = call_next(request)
        if b"blocked" in response.body:
            raise Retry("blocked", after=60)
        return response


def priced(item: Any, response: Response | None) -> Any:
    if item.get("price") == "0":
        raise DropItem("no price")
    return {**item, "url": response.url if response else None}


class Shop(Spider):
    name = "shop"
    allowed_domains = ("shop.example",)
    settings: ClassVar[dict[str, Any]] = {"retries": 1, "depth_limit": 3}
    city: str
    limit: int = 3

    def start(self, first: str, pages: int = 1) -> Iterator[Request]:
        yield from (Request(f"{first}?{n}") for n in range(pages))

    def opened(self, task: TaskInfo) -> None:
        self.task = task

    def parse(self, response: Response, n: int = 0) -> Iterator[Any]:
        yield {"title": response.css("h1::text").get(), "n": n}
        yield from response.follow_all(css="a", callback=self.page, delay=0.5)
        yield Request("https://elsewhere.example/")

    async def page(self, response: Response) -> AsyncIterator[Any]:
        await asyncio.sleep(0)
        yield Book(response.css("h1::text").get(), date(2026, 1, 2))

    def counts(self, response: Response) -> None:
        self.stats.inc("pages")
        self.stats.max("length", len(response.body))
        raise CloseTask("enough")

    def fails(self, response: Response) -> Iterator[Any]:
        yield {"before": 1}
        yield {"price": int(response.css("b::text").get("")) / 0}

    def leaves(self, response: Response) -> None:
        raise SystemExit(3)

    def unfit(self, response: Response) -> Iterator[Request]:
        yield Request(URL, self.page, cb_kwargs={"colour": "red"})

    def unknown(self, response: Response) -> Iterator[Request]:
        yield Request(URL, errback="nobody")

    def unstorable(self, response: Response) -> Iterator[Request]:
        yield Request(URL, meta={"response": response})

    def no_item(self, response: Response) -> Iterator[int]:
        yield 5

    def deep(self, response: Response) -> None:
        response.css("p")

    def state(self, response: Response) -> dict[str, Any]:
        return {"city": self.city, "limit": self.limit, "arguments": self.task.arguments}

    def about(self, response: Response, **data: Any) -> dict[str, Any]:
        sent = response.request
        return {"data": data, "token": sent.headers.get("Token"), "callback": sent.callback}

    def sorry(self, error: FetchError) -> Iterator[Any]:
        yield {"reason": error.reason, "url": error.request.url}

    def closed(self, summary: Summary) -> Iterator[Any]:
        yield {"items": summary.items}


class Careful(Shop):
    name = "careful"
    middlewares: ClassVar[Any] = [Signing(), Blocking]
    pipelines: ClassVar[Any] = [priced]

    def parse(self, response: Response, n: int = 0) -> Iterator[Any]:
        for price in response.css("b::text").getall():
            yield {"price": price}


# -- results ---------------------------------------------------------------------------------------


def test_items_and_requests_are_what_a_node_would_store() -> None:
    result = run(Shop, PAGE)
    assert result.items == [{"title": "Lamp", "n": 0}]
    assert result.requests == [
        Request("https://shop.example/b", "page", delay=0.5),
        Request("https://shop.example/c", "page", delay=0.5),
    ]
    assert (result.end, result.reason, result.closing) == ("done", "", "")
    assert run(Shop, make_response(URL, cb_kwargs={"n": 2})).items == [{"title": None, "n": 2}]


def test_what_a_callback_yields_can_be_compared_without_the_engine() -> None:
    assert list(Shop().parse(make_response(URL, html="<h1>Lamp</h1><a href=/b>"))) == [
        {"title": "Lamp", "n": 0},
        Request("https://shop.example/b", "page", delay=0.5),
        Request("https://elsewhere.example/"),
    ]


@pytest.mark.parametrize("callback", ["page", Shop.page, Shop().page])
def test_any_callback_runs_async_ones_too(callback: Any) -> None:
    assert run(Shop, PAGE, callback).items == [{"title": "Lamp", "seen": "2026-01-02"}]


def test_the_callback_is_that_of_the_request() -> None:
    response = make_response(URL, html="<h1>Lamp", request=Request(URL, "page"))
    assert run(Shop, response).items == [{"title": "Lamp", "seen": "2026-01-02"}]


def test_stats_and_the_end_of_the_task() -> None:
    result = run(Shop, PAGE, "counts")
    assert (result.stats, result.maxima) == ({"pages": 1}, {"length": len(PAGE.body)})
    assert result.closing == "enough"


def test_pipelines_change_and_drop_items_unless_left_out() -> None:
    response = make_response(URL, html="<b>1</b><b>0</b><b>0</b>")
    result = run(Careful, response)
    assert result.items == [{"price": "1", "url": URL}]
    assert (result.dropped, result.stats) == ({"no price": 2}, {})
    result = run(Careful, response, pipelines=False)
    assert (len(result.items), result.dropped) == (3, {})


def test_middlewares_surround_the_response_unless_left_out() -> None:
    blocked = make_response(URL, html="blocked <b>1")
    result = run(Careful, blocked)
    assert (result.end, result.reason, result.delay) == ("retry", "blocked", 60)
    assert run(Careful, blocked, middlewares=False).items == [{"price": "1", "url": URL}]


@pytest.mark.parametrize("middlewares", [True, False])
def test_a_request_is_downloaded_by_a_function(middlewares: bool) -> None:
    asked: list[Request] = []

    async def download(request: Request) -> Response:
        asked.append(request)
        return make_response(request.url)

    request = Request(URL, "about", cb_kwargs={"pair": (1, 2)}, headers={"Token": "old"})
    result = run(Careful, request, download=download, middlewares=middlewares, pipelines=False)
    token = "new" if middlewares else "old"
    assert result.items == [{"data": {"pair": [1, 2]}, "token": token, "callback": "about"}]
    assert asked == [request.replace(headers={"Token": token})]
    assert request.headers == {"Token": "old"}  # a record of it went through the engine


def test_a_status_that_is_not_handled_does_not_reach_the_callback() -> None:
    lost = make_response(URL, status=404)
    assert (run(Shop, lost).end, run(Shop, lost).reason) == ("error", "http_404")
    busy = make_response(URL, status=503, headers={"Retry-After": "20"})
    result = run(Shop, busy)
    assert (result.end, result.reason, result.delay) == ("retry", "http_503", 20)
    assert run(Shop, busy, attempts=1).end == "retry"  # its host refuses it: no try is used up
    assert run(Shop, busy, attempts=20).end == "error"
    assert run(Shop, make_response(URL, status=500), attempts=1).end == "error"


class Bookshop(Shop):
    """Says where a response came from."""

    name = "bookshop"
    middlewares: ClassVar[Any] = [Signing()]
    settings: ClassVar[dict[str, Any]] = {"headers": {"X-All": "1"}}

    def parse(self, response: Response, n: int = 0) -> Iterator[Any]:
        asked = response.request
        yield {
            "url": response.url,
            "status": response.status,
            "passed": list(response.redirects),
            "asked": [asked.method, asked.url],
        }


def moved(url: str, to: str, status: int = 302) -> Response:
    return make_response(url, status=status, headers={"Location": to})


@pytest.mark.parametrize("middlewares", [True, False])
def test_redirects_are_followed_as_by_a_node(middlewares: bool) -> None:
    asked: list[Request] = []
    third = "https://www.shop.example/3"
    pages = {URL: moved(URL, "/2", 301), "https://shop.example/2": moved(URL, third, 303)}

    def download(request: Request) -> Response:
        asked.append(request)
        return pages.get(request.url) or make_response(request.url)

    own = {"Authorization": "own", "X-Own": "1"}
    request = Request(URL, method="PUT", body=b"1", headers=own, errback="sorry")
    result = run(Bookshop, request, download=download, middlewares=middlewares)
    assert result.items == [
        {
            "url": third,
            "status": 200,
            "passed": [URL, "https://shop.example/2"],
            "asked": ["PUT", URL],
        }
    ]
    token = {"Token": "new"} if middlewares else {}
    assert [(one.method, one.url, one.body, one.headers) for one in asked] == [
        ("PUT", URL, b"1", own | token),
        ("PUT", "https://shop.example/2", b"1", own | token),
        ("GET", third, None, {"X-Own": "1"} | token),
    ]


def test_redirects_that_a_node_would_not_follow_fail() -> None:
    def ends(to: str) -> tuple[str, str]:
        def download(request: Request) -> Response:
            return moved(request.url, to)

        result = run(Bookshop, Request(URL), download=download)
        return result.end, result.reason

    assert ends("/again") == ("error", "too_many_redirects")
    assert ends("https://elsewhere.example/") == ("error", "bad_redirect")
    assert ends("mailto:a@shop.example") == ("error", "bad_redirect")
    assert ends("") == ("error", "http_302")


def test_a_response_that_redirects_is_given_with_its_target_or_not_followed() -> None:
    there = "https://shop.example/b"
    with pytest.raises(TypeError, match=f"redirects to {there}, which a node would fetch; give a"):
        run(Bookshop, moved(URL, "/b"))
    with pytest.raises(TypeError, match="which a node would fetch"):
        run(Shop, moved(URL, "/b"))
    kept = make_response(
        URL, status=302, headers={"Location": "/b"}, request=Request(URL, redirects=0)
    )
    assert run(Bookshop, kept).items[0]["status"] == 302


def test_an_errback_gets_the_error() -> None:
    result = run(Shop, ConnectionLost("gone"), "sorry")
    assert result.items == [{"reason": "connection_lost", "url": "https://www.example.com/"}]
    assert (result.end, result.reason, result.detail) == ("error", "connection_lost", "gone")
    lost = make_response(URL, status=404, request=Request(URL, errback="sorry"))
    assert run(Shop, lost).items == [{"reason": "http_404", "url": URL}]
    error = FetchError("no")
    error.request = Request(URL, errback="sorry")
    assert run(Shop, error).items == [{"reason": "fetch", "url": URL}]


def test_start_runs_with_arguments_and_closed_with_a_summary() -> None:
    result = run(Shop, arguments={"first": URL, "pages": "2"})
    assert result.requests == [Request(f"{URL}?0"), Request(f"{URL}?1")]
    assert run(Shop, make_summary(items=4)).items == [{"items": 4}]


def test_arguments_are_checked_and_what_is_not_used_may_be_missing() -> None:
    given = {"city": "Ulm", "limit": "5"}
    result = run(Shop, PAGE, "state", arguments=given)
    assert result.items == [{"city": "Ulm", "limit": 5, "arguments": given}]
    with pytest.raises(ArgumentError, match="limit"):
        run(Shop, PAGE, "state", arguments={"limit": "many"})
    with pytest.raises(TypeError, match="'first'"):
        run(Shop)


def test_an_object_keeps_what_the_test_set() -> None:
    shop = Shop()
    shop.city = "Ulm"
    result = run(shop, PAGE, "state", arguments={"limit": 5})
    assert result.items == [{"city": "Ulm", "limit": 5, "arguments": {"limit": 5}}]
    assert shop.task.spider == "shop"


def test_the_spider_is_made_in_the_event_loop() -> None:
    class Looping(Shop):
        name = "looping"

        def __init__(self) -> None:
            self.loop = asyncio.get_running_loop()

    assert len(run(Looping, PAGE).items) == 1


# -- errors ----------------------------------------------------------------------------------------


def test_what_a_callback_raises_comes_with_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        run(Shop, PAGE, "fails")
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert [frame.name for frame in frames][-3:] == ["run", "result_of", "fails"]
    with pytest.raises(SystemExit):
        run(Shop, PAGE, "leaves")
    with pytest.raises(TooDeep):
        run(Shop, make_response(URL, html="<div>" * 30_000), "deep")


def test_what_others_raise_comes_as_it_is() -> None:
    class Broken:
        async def fetch(self, request: Request, call_next: CallNext) -> Response:
            raise KeyError("token")

        def process_item(self, item: Any, response: Response | None) -> Any:
            raise KeyError("rate")

    class Around(Shop):
        middlewares: ClassVar[Any] = [Broken]

    class Behind(Shop):
        pipelines: ClassVar[Any] = [Broken]

    class Unopened(Shop):
        def opened(self, task: TaskInfo) -> None:
            raise OSError("no route")

    class Unmade(Shop):
        def __init__(self) -> None:
            raise OSError("no disk")

    for spider, error, words in (
        (Around, KeyError, "token"), (Behind, KeyError, "rate"), (Unopened, OSError, "no route"),
        (Unmade, OSError, "no disk"),
    ):  # fmt: skip
        with pytest.raises(error, match=words):
            run(spider, PAGE)


@pytest.mark.parametrize(
    ("callback", "error", "words"),
    [
        ("gone", SpiderError, "spider 'shop' has no method 'gone'"),
        ("unfit", SpiderError, r"does not fit the request: .*'colour'.*: Request\('https"),
        ("unknown", SpiderError, "has no method 'nobody': Request"),
        ("unstorable", BadRequest, "meta"),
        ("no_item", SpiderError, "int '5'; yield items"),
    ],
)
def test_what_a_node_would_refuse_or_park_fails(
    callback: str, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        run(Shop, PAGE, callback)


def test_a_request_that_cannot_be_stored_fails_before_it_is_run() -> None:
    with pytest.raises(BadRequest, match="meta"):
        run(Shop, make_response(URL, meta={"lambda": len}))


def test_a_spider_that_a_node_would_not_load_fails() -> None:
    class Slow(Shop):
        download_delay = 3

    with pytest.raises(SpiderError, match="download_delay"):
        run(Slow, PAGE)


def download(request: Request) -> Any:
    return {"url": request.url}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"got": Request(URL)}, "for a Request, give download"),
        ({"got": PAGE, "download": download}, "give a Response or download, not both"),
        ({"got": FetchError(), "download": download}, "a FetchError or download, not both"),
        ({"got": FetchError()}, "name the errback"),
        ({"got": b"<p>"}, "b'<p>' is no Response, Request, FetchError or Summary"),
        ({"callback": "page"}, "start and closed take neither"),
        ({"got": make_summary(), "download": download}, "start and closed take neither"),
        ({"got": Request(URL), "download": download}, r"download returned \{'url'.*a Response"),
    ],
)
def test_inputs_that_do_not_fit_together_are_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(TypeError, match=words):
        run(Shop, **given)


def test_in_an_event_loop_it_runs_in_a_thread() -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError, match=r"asyncio\.to_thread"):
            run(Shop, PAGE)
        assert len((await asyncio.to_thread(run, Shop, PAGE)).items) == 1

    asyncio.run(main())
