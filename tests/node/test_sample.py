"""Samples of good pages: which a worker takes, and that no secret gets into them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from crawlframe import Request, Secret, Spider
from crawlframe.conf import Settings
from crawlframe.node.worker.pages import sample
from crawlframe.node.worker.pages.sample import OF_TASK, REFILL, TASK_SECONDS, SamplePace
from crawlframe.pages.copy import PageCopy
from crawlframe.request.record import read_head
from crawlframe.response.response import Response
from tests.node.runner import HERE, URL, Ready, Tasks

TOKEN = "a1b2c3d4e5f6a7b8"
OTHER = "9z8y7x6w5v4u3t2s"
FORM = "5f4e3d2c1b0a9876"


class Shop(Spider):
    name = "shop"
    token: Secret = Secret("my-own-secret")

    def parse(self, response: Response) -> Any:
        yield {"a": 1}
        yield Request(f"http://shop.example/basket?PHPSESSID={OTHER}", "other")
        yield Request("http://shop.example/in", "other", method="POST", body=f"csrf={FORM}")

    def other(self, response: Response) -> Any:
        return None

    def parse_with(self, response: Response, password: str) -> Any:
        return self.parse(response)


class AllAlone(Shop):
    workers: ClassVar[int] = 1


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def takes(
    pace: SamplePace, callback: str = "parse", kind: type = Shop, body: bytes = b"", url: str = URL,
    task: int = 1,
) -> bool:  # fmt: skip
    crawl: Any = SimpleNamespace(spec=SimpleNamespace(spider="shop"), spider=kind)
    outcome: Any = SimpleNamespace(callback=callback, task=task)
    return pace.takes(outcome, crawl, Response(url, 200, {}, body, Request(url)))


def count(pace: SamplePace, pages: int = 50, **more: Any) -> int:
    return sum(takes(pace, **more) for _ in range(pages))


def test_the_first_pages_of_each_callback_are_taken_and_then_some() -> None:
    clock = Clock()
    pace = SamplePace(20, 2, clock)
    assert (count(pace), count(pace)) == (10, 0)
    assert count(pace, callback="house") == 10
    clock.now += REFILL / 10
    assert (count(pace), count(pace, callback="house")) == (1, 1)
    clock.now += 100 * REFILL
    assert count(pace) == 10


def test_each_further_task_has_some_pages_at_first_but_not_many_tasks_at_once() -> None:
    clock = Clock()
    pace = SamplePace(20, 2, clock)
    assert (count(pace), count(pace, task=2)) == (10, 0)
    clock.now += TASK_SECONDS
    assert (count(pace, task=1), count(pace, task=2)) == (0, OF_TASK)
    assert count(pace, task=3) == 0
    clock.now += TASK_SECONDS
    assert count(pace, task=3) == OF_TASK
    clock.now += TASK_SECONDS
    assert count(SamplePace(0, 2, clock), task=3) == 0


def test_each_template_has_its_pages_and_all_beyond_the_first_have_theirs() -> None:
    pace = SamplePace(3, 1)
    assert [count(pace, 5, url=f"http://h{n}.example/") for n in range(20)] == [3] * 9 + [0] * 11
    assert count(pace, 5, url="http://h1.example/a?page=2") == 0  # a page of none of them


def test_where_none_is_taken_for_long_few_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []

    def form_of(url: str) -> str:
        looked.append(url)
        return "form"

    monkeypatch.setattr(sample, "form_of", form_of)
    clock = Clock()
    pace = SamplePace(20, 1, clock)
    assert (count(pace, 20 + sample.PATIENCE + 80), len(looked)) == (20, 20 + sample.PATIENCE + 10)
    clock.now += REFILL
    assert count(pace, 40) == 20


def test_a_worker_that_has_a_spider_alone_takes_the_part_of_all() -> None:
    assert count(SamplePace(20, 8), kind=AllAlone) == 20
    assert count(SamplePace(20, 8)) == 3
    assert count(SamplePace(1, 8)) == 1
    assert count(SamplePace(0, 8)) == 0


def test_a_large_page_is_not_taken_and_takes_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample, "MAX_BODY", 4)
    pace = SamplePace(1)
    assert (takes(pace, body=b"12345"), takes(pace, body=b"1234")) == (False, True)


def kept(
    request: Request, body: bytes, headers: dict[str, str], node: Settings = HERE, **settings: Any
) -> PageCopy:
    made = type("Made", (Shop,), {"settings": settings})

    async def run() -> Any:
        arguments = {"token": Secret("my-own-secret")}
        tasks = Tasks(made, Sent(body=body, headers=headers), arguments, settings=node)
        return (await tasks.run(request)).results.page

    found = asyncio.run(run())
    assert isinstance(found, PageCopy)
    return found


class Sent(Ready):
    """Says what it sent, as downloaders do."""

    async def fetch(self, request: Request, *more: Any) -> Response:
        response = await super().fetch(request, *more)
        sent = {**request.headers, "Cookie": "; ".join(map("=".join, request.cookies.items()))}
        response.sent = request.method, request.url, [*sent.items()]
        return response


def test_a_good_page_is_a_sample_by_default() -> None:
    page = kept(Request(URL, priority=3), b"<p>hello", {"ETag": '"1"'})
    assert (page.sample, page.reason, page.tentative) == ("parse", "", False)
    assert (page.key, page.etag) == (None, '"1"')  # it is not used in place of fetches
    assert (page.body, page.size, page.held.size) == (b"<p>hello", 8, 8)
    assert Request.decode(page.record) == Request(URL, priority=3)


def test_no_sample_is_kept_where_none_is_asked_for() -> None:
    with pytest.raises(AssertionError):
        kept(Request(URL), b"", {}, keep="errors")
    with pytest.raises(AssertionError):
        kept(Request(URL), b"", {}, keep="none")
    with pytest.raises(AssertionError):
        kept(Request(URL), b"", {}, node=replace(HERE, keep_sample=0))


def test_secrets_are_taken_out_of_body_url_headers_and_request() -> None:
    request = Request(
        f"http://shop.example/a?api_key={TOKEN}&page=2",
        "parse_with",
        headers={"Authorization": f"Bearer {TOKEN}x"},
        cookies={"session": f"{TOKEN}y"},
        cb_kwargs={"password": "hunter22hunter"},
        meta={"n": 7},
    )
    secrets = (TOKEN, f"{TOKEN}y", OTHER, FORM, "hunter22hunter", "my-own-secret", "q1w2e3r4t5y6")
    body = "<p>" + " ".join(secrets) + ' {"access_token": "q1w2e3r4t5y6", "price": 3}'
    page = kept(request, body.encode(), {"Set-Cookie": f"sid={TOKEN}z; Path=/"})
    told = [page.body.decode(), page.url, str(page.headers), str(page.record)]
    for secret in secrets:
        assert not any(secret in text for text in told), secret
    assert b'"price": 3' in page.body
    assert (page.size, page.held.size) == (len(page.body), len(page.body))
    read = Request.decode(page.record)
    assert (read.url, read.meta) == ("http://shop.example/a?api_key=stripped&page=2", {"n": 7})
    assert read.cb_kwargs == {"password": "stripped"}
    assert read_head(page.record).callback == "parse_with"
    assert page.sample == "parse_with"
