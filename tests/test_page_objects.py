"""Page objects of web-poet: callbacks get them by type hint."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import attrs
import pytest
import web_poet
from web_poet import HttpClient, HttpResponse, PageParams, Stats, WebPage, field

from crawlframe import Request, Response, Spider
from crawlframe.errors import SpiderError, TooDeep
from crawlframe.run.outcome import Verdict
from crawlframe.spider.page_objects import PageObjects
from crawlframe.spider.spider import describe
from crawlframe.testing import make_response, run
from tests.howto import spider_of
from tests.node.runner import Ready, Runs, Tasks, items, registry_of

if TYPE_CHECKING:
    from decimal import Decimal

URL = "https://shop.example/books/1"
HTML = "<h1>A</h1><p class=price_color>£ 5.50"


@attrs.define
class Book:
    title: str


class BookPage(WebPage[Book]):
    @field
    def title(self) -> str:
        return self.css("h1::text").get("")


class Shop(Spider):
    name = "shop"

    async def parse(self, response: Response, page: BookPage, left: int = 0) -> Any:
        yield await page.to_item()
        if left:
            yield response.follow("/next", cb_kwargs={"left": left - 1})


def page(html: str = HTML, **more: Any) -> Response:
    return make_response(URL, html=html, **more)


def made(function: Any, response: Response) -> Any:
    class Asking(Spider):
        name = "asking"
        parse = function

    spider = Asking()
    return PageObjects(spider).bind(spider.parse, response, {})()


def test_a_callback_gets_the_page_object_next_to_its_cb_kwargs() -> None:
    result = run(Shop, page(cb_kwargs={"left": 2}))
    assert result.items == [{"title": "A"}]
    assert result.requests == [Request("https://shop.example/next", cb_kwargs={"left": 1})]


def test_in_a_worker_it_fits_the_request() -> None:
    tasks = Tasks(Shop, Ready(body=HTML.encode(), headers={"Content-Type": "text/html"}))
    outcome = asyncio.run(tasks.run(Request(URL)))
    assert (outcome.verdict, items(outcome)) == (Verdict.DONE, [{"title": "A"}])
    outcome = asyncio.run(tasks.run(Request(URL + "/2", cb_kwargs={"other": 1})))
    assert outcome.verdict is Verdict.PARK
    assert "unexpected keyword argument 'other'" in outcome.reason


def test_plain_callbacks_and_generators_get_it_too() -> None:
    class Plain(Spider):
        name = "plain"

        def parse(self, response: Any, one: BookPage, two: BookPage) -> Any:
            assert one is two
            yield {"title": one.css("h1::text").get()}

    assert run(Plain, page()).items == [{"title": "A"}]


def test_cb_kwargs_win() -> None:
    class Given(Spider):
        name = "given"

        def parse(self, response: Any, page: BookPage | str) -> Any:
            yield {"page": str(page)}

    assert run(Given, page(cb_kwargs={"page": "x"})).items == [{"page": "x"}]


@attrs.define
class Wide(WebPage):
    ours: Response
    body: web_poet.HttpResponseBody
    headers: web_poet.HttpResponseHeaders
    url_of: web_poet.ResponseUrl
    request: web_poet.HttpRequest
    request_body: web_poet.HttpRequestBody
    request_headers: web_poet.HttpRequestHeaders
    request_url: web_poet.RequestUrl
    params: PageParams
    any_response: web_poet.AnyResponse
    book: BookPage


def test_page_objects_are_made_of_everything_about_the_page() -> None:
    request = Request(
        "https://shop.example/", form={"q": "x"}, meta={"page_params": {"currency": "EUR"}}
    )
    response = page(request=request)

    def parse(self: Any, response: Any, page: Wide) -> Any:
        return page

    wide = made(parse, response)
    assert wide.ours is response
    assert wide.response.status == 200
    assert (wide.body, wide.headers["content-type"]) == (response.body, "text/html; charset=utf-8")
    assert (str(wide.url_of), wide.url, str(wide.request_url)) == (URL, URL, request.url)
    assert (wide.request.method, wide.request.body) == ("POST", b"q=x")
    assert wide.request_body == b"q=x"
    assert wide.request_headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert wide.params == {"currency": "EUR"}
    assert wide.any_response.css("h1::text").get() == "A"
    assert wide.book.response is wide.response


def test_the_text_is_that_of_our_response() -> None:
    russian = "Привет, мир, это страница на русском языке"
    response = make_response(
        "https://koi.example/",
        body=f"<h1>{russian}".encode("koi8-r"),
        headers={"Content-Type": "text/html"},
    )

    def parse(self: Any, response: Any, page: BookPage, plain: HttpResponse) -> Any:
        return page, plain

    page_object, plain = made(parse, response)
    assert plain.text == response.text
    assert plain.selector is response.selector
    assert page_object.css("h1::text").get() == response.css("h1::text").get()


def test_pages_that_take_too_long_are_refused() -> None:
    def parse(self: Any, response: Any, page: BookPage) -> Any:
        return page.css("h1")

    with pytest.raises(TooDeep):
        made(parse, page("<div>" * 50_000))


def test_stats_count_for_the_task() -> None:
    class Counting(Spider):
        name = "counting"

        def parse(self, response: Any, stats: Stats) -> Any:
            stats.inc("books")
            stats.inc("books", 2)

    class Setting(Spider):
        name = "setting"

        def parse(self, response: Any, stats: Stats) -> Any:
            stats.set("books", 2)

    assert run(Counting, page()).stats == {"books": 3}
    with pytest.raises(SpiderError, match=r"Stats.set\('books'\)"):
        run(Setting, page())


def test_what_is_provided_may_be_annotated() -> None:
    def parse(self: Any, response: Any, page: Annotated[HttpResponse, "x"]) -> Any:
        return page

    assert isinstance(made(parse, page()), HttpResponse)


def test_a_rule_replaces_a_page_object_on_its_site(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = web_poet.RulesRegistry()
    monkeypatch.setattr(web_poet, "default_registry", registry)

    class OtherPage(BookPage):
        @field
        def title(self) -> str:
            return "other"

    registry.handle_urls("shop.example", instead_of=BookPage)(OtherPage)
    assert run(Shop, page()).items == [{"title": "other"}]
    assert run(Shop, make_response("https://x.example", html=HTML)).items == [{"title": "A"}]


@attrs.define
class Fetching(WebPage):
    client: HttpClient


@attrs.define
class Within(WebPage):
    inner: Fetching


@attrs.define
class Untyped(WebPage):
    number: int


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (HttpClient, "parse asks for HttpClient, which does not exist here; yield a Request"),
        (Fetching, "parse: Fetching asks for HttpClient, which does not exist here"),
        (Within, "parse: Fetching asks for HttpClient"),
        (web_poet.BrowserPage, "BrowserPage asks for BrowserResponse, .* use HttpResponse"),
        (Annotated[BookPage, "x"], "parse asks for Annotated; write BookPage alone"),
        (Untyped, "parse: its page objects cannot be made: .*'number'"),
    ],
)
def test_what_cannot_be_made_is_refused_when_the_spider_is_loaded(kind: Any, words: str) -> None:
    class Asking(Spider):
        name = "asking"

        def parse(self, response: Any, page: kind) -> Any: ...

    Asking.parse.__annotations__["page"] = kind
    with pytest.raises(SpiderError, match=words):
        describe(Asking)


def test_hints_that_only_type_checkers_know_are_no_page_objects() -> None:
    class Hinted(Spider):
        name = "hinted"

        def parse(self, response: Any, price: Decimal | None = None) -> Any:
            yield {"price": price}

    assert run(Hinted, page()).items == [{"price": None}]


def test_an_error_of_a_page_object_shows_the_authors_code(tmp_path: Path) -> None:
    source = """
import web_poet
from crawlframe import Spider

class Broken(web_poet.Injectable):
    def __init__(self):
        raise RuntimeError("broken")

class Shop(Spider):
    name = "shop"
    def parse(self, response, page: Broken):
        pass
"""
    outcome = asyncio.run(Runs(registry_of(tmp_path, source)).page())
    assert outcome.reason == "callback"
    assert outcome.detail.splitlines()[0].endswith(", in __init__")
    assert "RuntimeError: broken" in outcome.detail


def test_the_examples() -> None:
    shop = spider_of("howto/page-objects.md", "book_shop")
    assert run(shop, page(), "parse_book").items == [{"title": "A", "price": 5.5}]
    offers = spider_of("howto/page-objects.md", "offers")
    [request] = run(offers, arguments={"url": URL, "currency": "CHF"}).requests
    html = """<b class=price>5</b>
    <script type="application/ld+json">{"@type": "Organization", "name": "S"}"""
    assert run(offers, make_response(URL, html=html, request=request)).items == [
        {"price": "5", "currency": "CHF", "seller": "S"}
    ]
