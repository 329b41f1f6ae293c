"""Pages of ``render = "auto"``: plainly first, and again by the browser if they are incomplete."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from crawlframe import CloseTask, Expect, Request, Response, Spider
from crawlframe.frontier.client.records import Claimed
from crawlframe.node.worker.fetch.rendering import RenderSource
from crawlframe.recipes.reading import from_data
from crawlframe.recipes.spider import spider_of
from crawlframe.render.knowledge import PROBES, STREAK, UNKNOWN, Knowledge, Lesson, URLTemplate
from crawlframe.request.record import Hop, render_of, with_hops, without_hops
from crawlframe.request.request import make_rid
from crawlframe.run.outcome import Outcome, Verdict
from tests.node.runner import HTML, URL, Ready, Tasks, items

SHELL = b"<title>shop</title><div id=app></div>"
WHOLE = b"<title>shop</title><h1>Shoe</h1><b>7</b><a href=/b>more</a>"
HALF = b"<title>shop</title><h1>Shoe</h1>"


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*args: Any, **named: Any) -> None:
        asyncio.run(test(*args, **named))

    return run


class Shop(Spider):
    name = "shop"
    settings = {"render": "auto"}
    expect = Expect(fields={"name": 1, "price": 0.9})

    def parse(self, response: Response) -> Any:
        self.stats.inc("parsed")
        if response.css("h1"):
            yield {"name": response.css("h1::text").get(), "price": response.css("b::text").get()}
        yield from response.follow_all(css="a")


class Both(Ready):
    """Plain and rendered pages of one site."""

    def __init__(self, plain: bytes, rendered: bytes = WHOLE, **more: Any) -> None:
        super().__init__(body=plain, headers=HTML, **more)
        self._plain, self._rendered = plain, rendered

    async def fetch(self, request: Request, *others: Any, **more: Any) -> Response:
        self._body = self._rendered if request.downloader == "browser" else self._plain
        return await super().fetch(request, *others, **more)


class Known(RenderSource):
    """Knowledge of all templates."""

    def __init__(self, known: Knowledge = UNKNOWN) -> None:
        self.known = known
        self.asked: list[tuple[str, URLTemplate]] = []
        self.begun: list[bool] = []

    async def find(self, spider: str, template: URLTemplate) -> Knowledge:
        self.asked.append((spider, template))
        return self.known

    def begin(self, spider: str, template: URLTemplate, *, direct: bool) -> None:
        self.begun.append(direct)


class Pages(Tasks):
    def __init__(
        self,
        plain: bytes,
        rendered: bytes = WHOLE,
        *,
        spider: type[Spider] = Shop,
        known: Knowledge = UNKNOWN,
        **more: Any,
    ) -> None:
        self.web, self.source = Both(plain, rendered, **more), Known(known)
        super().__init__(spider, self.web, renders=self.source)

    @property
    def fetched(self) -> list[str | None]:
        """The downloaders of all fetches."""
        return [request.downloader for request in self.web.asked]

    async def again(self, outcome: Outcome) -> Outcome:
        """The same request, claimed again as it went back."""
        request = Request.decode(outcome.record)
        rid = make_rid(self.task, request.fingerprint())
        return await self.take(Claimed(rid, self.task, outcome.target, 0, 0, outcome.record))


def reason_of(outcome: Outcome) -> str:
    mark = render_of(outcome.record)
    assert mark is not None
    return str(mark[0])


def lesson(outcome: Outcome) -> Lesson | None:
    assert outcome.fetch.attempt is not None
    return outcome.fetch.attempt.lesson


@in_loop
async def test_a_complete_page_is_not_rendered():
    pages = Pages(WHOLE)
    outcome = await pages.run(Request(URL))
    assert outcome.verdict is Verdict.DONE
    assert items(outcome) == [{"name": "Shoe", "price": "7"}]
    assert pages.fetched == [None]
    assert lesson(outcome) is Lesson.STATIC
    assert pages.source.asked == [("shop", URLTemplate("parse", "shop.example/*"))]


@pytest.mark.parametrize(
    ("plain", "reason"), [(HALF, "missing"), (SHELL, "bare"), (b"<a href=/c>x</a>", "bare")]
)
@in_loop
async def test_an_incomplete_page_goes_back_for_the_browser(plain, reason):
    pages = Pages(plain)
    first = await pages.run(Request(URL))
    assert (first.verdict, first.target) == (Verdict.REDIRECT, "shop.example")
    assert (first.results.items, first.results.follow_ups, first.results.stats) == ([], [], None)
    assert (first.reason, lesson(first)) == ("", None)
    assert reason_of(first) == reason
    second = await pages.again(first)
    assert second.verdict is Verdict.DONE
    assert items(second) == [{"name": "Shoe", "price": "7"}]
    assert len(second.results.follow_ups) == 1
    assert second.results.stats is not None
    assert second.results.stats.counters == {"parsed": 1}
    assert pages.fetched == [None, "browser"]
    assert lesson(second) is Lesson.NEEDED


@in_loop
async def test_the_record_grows_so_that_it_goes_back_once():
    pages = Pages(HALF)
    request = Request(URL, cb_kwargs={}, meta={"n": 1}, session="a")
    first = await pages.run(request)
    assert len(first.record) > len(request.encode())
    assert Request.decode(first.record) == request
    assert Request.decode(without_hops(first.record)) == request
    assert render_of(without_hops(first.record)) is None


@in_loop
async def test_redirects_of_the_plain_page_stay():
    pages = Pages(HALF)
    record = with_hops(Request(URL).encode(), [Hop(302, "http://other.example/x")])
    rid = make_rid(1, b"x")
    first = await pages.take(Claimed(rid, 1, "other.example", 0, 0, record))
    assert (first.verdict, first.target) == (Verdict.REDIRECT, "other.example")
    assert first.fetch.redirects == [Hop(302, "http://other.example/x")]
    second = await pages.again(first)
    assert second.fetch.redirects == first.fetch.redirects
    assert second.fetch.attempt is not None
    assert second.fetch.attempt.template.form == "shop.example/*"


@in_loop
async def test_a_field_that_is_truly_missing_is_rendered_once():
    pages = Pages(HALF, HALF)
    second = await pages.again(await pages.run(Request(URL)))
    assert second.verdict is Verdict.DONE
    assert items(second) == [{"name": "Shoe", "price": None}]
    assert lesson(second) is Lesson.VAIN


@in_loop
async def test_a_template_that_needed_the_browser_often_gets_no_plain_fetch():
    pages = Pages(SHELL, known=Knowledge(streak=STREAK))
    outcome = await pages.run(Request(URL))
    assert outcome.verdict is Verdict.DONE
    assert pages.fetched == ["browser"]
    assert lesson(outcome) is Lesson.DIRECT
    assert pages.source.begun == [True]


@in_loop
async def test_it_gets_one_now_and_then():
    known = Knowledge(streak=STREAK, skipped=4)
    pages = Pages(WHOLE, known=known)
    outcome = await pages.run(Request(URL))
    assert pages.fetched == [None]
    assert lesson(outcome) is Lesson.STATIC
    assert pages.source.begun == [False]
    pages = Pages(SHELL, known=known)
    assert lesson(await pages.again(await pages.run(Request(URL)))) is Lesson.NEEDED


@in_loop
async def test_a_page_without_items_is_accepted_where_rendering_was_in_vain():
    pages = Pages(b"<a href=/b>more</a>", known=Knowledge(bare=PROBES))
    outcome = await pages.run(Request(URL))
    assert outcome.verdict is Verdict.DONE
    assert len(outcome.results.follow_ups) == 1
    assert lesson(outcome) is Lesson.BARE


@in_loop
async def test_an_exception_of_the_callback_on_a_plain_page_teaches_nothing():
    class Strict(Shop):
        def parse(self, response):
            yield {"name": response.css("h1::text").get().strip(), "price": 1}

    pages = Pages(SHELL, spider=Strict)
    first = await pages.run(Request(URL))
    assert (first.verdict, first.fetch.exchange) == (Verdict.REDIRECT, None)
    second = await pages.again(first)
    assert items(second) == [{"name": "Shoe", "price": 1}]
    assert lesson(second) is None


@pytest.mark.parametrize("status", [404, 500])
@in_loop
async def test_a_failed_fetch_teaches_nothing_and_is_not_rendered(status):
    pages = Pages(SHELL, status=status)
    outcome = await pages.run(Request(URL, retries=0))
    assert (outcome.verdict, outcome.reason) == (Verdict.ERROR, f"http_{status}")
    assert outcome.fetch.attempt is None
    assert pages.fetched == [None]


@in_loop
async def test_a_rendered_page_that_fails_is_tried_again_in_the_browser():
    pages = Pages(HALF)
    first = await pages.run(Request(URL))
    pages.web._status = 503
    second = await pages.again(first)
    assert second.verdict is Verdict.RELEASE
    assert render_of(second.record) is not None
    assert second.fetch.attempt is None


@in_loop
async def test_a_status_that_is_handled_is_accepted_without_a_lesson():
    pages = Pages(SHELL, status=404)
    outcome = await pages.run(Request(URL, handle=[404]))
    assert outcome.verdict is Verdict.DONE
    assert lesson(outcome) is None


@in_loop
async def test_a_task_is_not_closed_by_a_plain_page():
    class Closing(Shop):
        def parse(self, response):
            if not response.css("h1"):
                raise CloseTask("no more")
            yield from super().parse(response)

    pages = Pages(SHELL, spider=Closing)
    first = await pages.run(Request(URL))
    assert (first.verdict, first.results.closing) == (Verdict.REDIRECT, "")
    assert lesson(await pages.again(first)) is Lesson.NEEDED


SEEN: list[bytes] = []  # by Asking


class Asking(Spider):
    name = "asking"
    settings = {"render": "auto"}

    def needs_browser(self, response: Response) -> bool:
        return bool(response.css("#app"))

    def parse(self, response: Response) -> Any:
        SEEN.append(response.body)
        yield {"title": response.css("title::text").get()}


@in_loop
async def test_needs_browser_decides_before_the_callback():
    SEEN.clear()
    pages = Pages(SHELL, spider=Asking)
    first = await pages.run(Request(URL))
    assert (first.verdict, reason_of(first)) == (Verdict.REDIRECT, "asked")
    second = await pages.again(first)
    assert SEEN == [WHOLE]
    assert lesson(second) is Lesson.NEEDED
    pages = Pages(WHOLE, spider=Asking)
    assert lesson(await pages.run(Request(URL))) is Lesson.STATIC


@in_loop
async def test_an_exception_of_needs_browser_is_one_of_the_spider():
    class Broken(Asking):
        def needs_browser(self, response):
            raise KeyError("app")

    outcome = await Pages(SHELL, spider=Broken).run(Request(URL))
    assert (outcome.verdict, outcome.reason) == (Verdict.ERROR, "callback")
    assert "KeyError" in outcome.detail


@in_loop
async def test_an_item_that_does_not_fit_its_class_is_incomplete():
    @dataclasses.dataclass
    class Article:
        name: str
        price: int

    class Typed(Shop):
        item = Article
        expect = Expect()

    pages = Pages(HALF, spider=Typed)
    first = await pages.run(Request(URL))
    assert reason_of(first) == "missing"
    second = await pages.again(first)
    assert items(second) == [{"name": "Shoe", "price": 7}]
    assert lesson(second) is Lesson.NEEDED


@pytest.mark.parametrize(
    "request_",
    [
        Request(URL, downloader="requests"),
        Request(URL, method="POST", body=b"x"),
        Request(URL, save=True),
    ],
)
@in_loop
async def test_a_request_that_cannot_be_sent_twice_or_names_a_downloader_has_no_choice(request_):
    outcome = await Pages(SHELL).run(request_)
    assert outcome.verdict is Verdict.DONE
    assert outcome.fetch.attempt is None


@in_loop
async def test_what_is_no_page_is_not_rendered():
    class Data(Shop):
        def parse(self, response):
            yield response.json()

    pages = Pages(b'{"name": "x"}', spider=Data)
    pages.web._fields = {"Content-Type": "application/json"}
    outcome = await pages.run(Request(URL))
    assert outcome.verdict is Verdict.DONE
    assert lesson(outcome) is None


@in_loop
async def test_other_spiders_pay_nothing():
    class Plain(Shop):
        settings = {"render": None}

    pages = Pages(SHELL, spider=Plain)
    outcome = await pages.run(Request(URL))
    assert outcome.verdict is Verdict.DONE
    assert (outcome.fetch.attempt, pages.source.asked) == (None, [])


@in_loop
async def test_a_request_with_a_mark_is_rendered_after_the_code_has_changed():
    class Later(Shop):
        settings = {"render": None}

    first = await Pages(HALF).run(Request(URL))
    pages = Pages(HALF, spider=Later)
    second = await pages.again(first)
    assert (second.verdict, second.fetch.attempt) == (Verdict.DONE, None)
    assert pages.fetched == ["browser"]


@in_loop
async def test_a_mark_that_cannot_be_read_ends_the_request():
    pages = Pages(HALF)
    first = await pages.run(Request(URL))
    first.record = first.record.replace(b"missing", b"unknown")
    second = await pages.again(first)
    assert (second.verdict, second.reason) == (Verdict.ERROR, "bad_request")


@in_loop
async def test_shells_are_no_trap():
    pages = Pages(SHELL)
    for n in range(900):
        outcome = await pages.run(Request(f"http://shop.example/p/{n}"))
        assert outcome.results.trap is None


@in_loop
async def test_an_item_that_a_recipe_leaves_out_is_incomplete():
    data = {"name": "shop", "start_urls": ["https://a.example/"], "required": ["name", "price"]}
    more = {"each": "article", "fields": {"name": "h1", "price": "b"}}
    recipe = from_data({**data, **more, "settings": {"render": "auto"}})
    one, other = b"<article><h1>a</h1><b>1</b></article>", b"<article><h1>b</h1></article>"
    pages = Pages(one + other, one + one, spider=spider_of(recipe, "shop"))
    first = await pages.run(Request(URL))
    assert reason_of(first) == "missing"
    second = await pages.again(first)
    assert (len(second.results.items), lesson(second)) == (2, Lesson.NEEDED)
