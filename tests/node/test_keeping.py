"""Kept pages of a worker: by the setting of their spider, and by their end."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from crawlframe import Request, Spider
from crawlframe.node.worker.pages import keeping
from crawlframe.node.worker.pages.keeping import Keeping
from crawlframe.node.worker.pages.sample import SamplePace
from crawlframe.pages.copy import PageCopy
from crawlframe.response.coded_body import CodedBody
from crawlframe.response.response import Response
from crawlframe.run.outcome import Outcome, Verdict
from tests.node.runner import URL, Ready, Tasks


@dataclass
class House:
    price: int


class Shop(Spider):
    name = "shop"

    def parse(self, response: Response) -> Any:
        yield {"a": 1}

    def fails(self, response: Response) -> Any:
        raise ValueError("no")

    def sorry(self, error: Any) -> Any:
        yield {"sorry": 1}


class Typed(Spider):
    name = "typed"
    item = House

    def parse(self, response: Response) -> Any:
        yield {"price": "many"}
        yield {"price": 3}


class Blocked(Shop):
    name = "blocked"

    def is_blocked(self, response: Response) -> bool:
        return b"robot" in response.body


def outcome(
    spider: type[Spider] = Shop,
    request: Request | None = None,
    keep: str | None = None,
    *,
    status: int = 200,
    body: bytes = b"<p>hello",
    attempts: int = 9,
) -> Outcome:
    """The outcome of one request with this answer."""
    settings = {} if keep is None else {"keep": keep}
    made: type[Spider] = type("Made", (spider,), {"settings": settings, "retries": 0})
    headers = {"ETag": '"1"', "Last-Modified": "then", "Set-Cookie": "sid=4711; Path=/"}
    downloader = Ready(status, body=body, headers=headers)

    async def one() -> Outcome:
        return await Tasks(made, downloader).run(request or Request(URL), attempts=attempts)

    return asyncio.run(one())


def page(*given: Any, **more: Any) -> PageCopy | None:
    return outcome(*given, **more).results.page


def test_a_good_page_is_kept_if_all_are() -> None:
    assert page(keep="errors") is page(keep="none") is None
    kept = page(keep="all")
    assert kept is not None
    assert (kept.url, kept.method, kept.status, kept.reason) == (URL, "GET", 200, "")
    assert (kept.body, kept.size, kept.etag, kept.modified) == (b"<p>hello", 8, '"1"', "then")
    assert kept.key is not None
    assert kept.headers["received"][2] == ["Set-Cookie", "sid=********; Path=/"]
    assert Request.decode(kept.record) == Request(URL)


class Coded(Ready):
    """Answers as a server that compresses; a middleware may have replaced the body."""

    replaced = False

    async def fetch(self, request: Request, *more: Any) -> Response:
        response = await super().fetch(request, *more)
        response.coded = CodedBody("gzip", b"sent", response.body)
        if self.replaced:
            response.body = b"<p>other"
        return response


def test_a_body_is_kept_as_it_was_sent_unless_it_was_replaced() -> None:
    made = type("Made", (Shop,), {"settings": {"keep": "all"}})
    downloader = Coded(body=b"<p>hello")

    async def kept() -> PageCopy:
        found = (await Tasks(made, downloader).run(Request(URL))).results.page
        assert found is not None
        return found

    page = asyncio.run(kept())
    assert (page.body, page.coded and page.coded.data) == (b"<p>hello", b"sent")
    downloader.replaced = True
    page = asyncio.run(kept())
    assert (page.body, page.coded) == (b"<p>other", None)


@pytest.mark.parametrize("keep", [None, "sample", "errors", "all"])
@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"status": 404}, "http_404"),
        ({"status": 404, "request": Request(URL, errback="sorry")}, "http_404"),
        ({"request": Request(URL, "fails")}, "callback"),
        ({"spider": Typed}, "item"),
        ({"spider": Blocked, "body": b"are you a robot?"}, "blocked"),
    ],
)
def test_pages_that_failed_are_kept(keep: str | None, given: dict[str, Any], reason: str) -> None:
    kept = page(keep=keep, **given)
    assert kept is not None
    assert (kept.reason, kept.sample) == (reason, None)
    assert (kept.key is None) == (reason in ("callback", "blocked"))
    assert page(keep="none", **given) is None


def test_a_page_that_is_tried_again_is_not_kept_yet() -> None:
    again = outcome(status=503, keep="all", attempts=0)
    assert (again.verdict, again.results.page) == (Verdict.RELEASE, None)


def test_of_a_storm_of_errors_the_first_and_then_some_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    monkeypatch.setattr(keeping, "PER_REASON", 2)
    kept = Keeping(SamplePace(0), lambda: now[0])
    found = []
    for second in (0.0, 0.0, 0.0, 5.0, 10.0, 11.0, 20.0):
        now[0] = second
        found.append(kept._is_due(1, "http_404"))
    assert found == [True, True, False, False, True, False, True]
    assert kept._is_due(1, "http_403")
    assert kept._is_due(2, "http_404")


def test_too_many_bodies_wait_until_some_are_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "MAX_HELD", 10)
    made = type("Made", (Shop,), {"settings": {"keep": "all"}})

    async def run() -> list[int]:
        tasks = Tasks(made, Ready(body=b"12345678"))
        first = await tasks.run(Request(URL))
        second = asyncio.create_task(tasks.run(Request(f"{URL}/2")))
        await asyncio.sleep(3 * keeping.POLL)
        waits = not second.done()
        assert first.results.page is not None
        first.results.page.give()
        first.results.page.give()  # once is enough
        assert (await second).results.page is not None
        return [waits, first.results.page.held.size]

    assert asyncio.run(run()) == [True, 8]
