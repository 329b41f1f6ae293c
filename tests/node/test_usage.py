"""What pages say about their use, in a worker: recorded, and obeyed if the spider says so."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
from multidict import CIMultiDict

from crawlframe.errors import FetchError, SpiderError
from crawlframe.outcome import Outcome, Verdict
from crawlframe.request import Request
from crawlframe.response import Response
from crawlframe.robots.rules import Rules
from crawlframe.spider import Spider, read_settings
from tests.node.runner import HTML, URL, Ready, Tasks, items


class Reader(Spider):
    name = "reader"

    def parse(self, response: Response) -> Iterator[Any]:
        usage = response.usage
        yield {"denied": None if usage is None else usage.denies("ai-train")}


class Web(Ready):
    """A page that every request gets, and the robots.txt beside it."""

    def __init__(self, body: bytes, headers: Any, robots: str, status: int = 200) -> None:
        super().__init__(status, body=body, headers=headers)
        self.robots = robots

    async def fetch(self, request: Request, *others: Any, **more: Any) -> Response:
        response = await super().fetch(request, *others, **more)
        if self.robots:
            response.robots = Rules("http://shop.example", self.robots, "crawlframe")
        return response


def page(
    body: bytes = b"<p>",
    fields: Any = HTML,
    spider: type[Spider] = Reader,
    robots: str = "",
    status: int = 200,
    **options: Any,
) -> Outcome:
    async def job() -> Outcome:
        return await Tasks(spider, Web(body, fields, robots, status)).run(Request(URL, **options))

    return asyncio.run(job())


# -- the record ------------------------------------------------------------------------------------


def test_what_a_page_says_is_recorded() -> None:
    outcome = page(b"<meta name=robots content=noai>")
    assert outcome.usage == {"ai-train": "no", "said": [["meta robots", "noai"]]}
    assert items(outcome) == [{"denied": True}]


def test_a_page_that_says_nothing_has_no_record() -> None:
    outcome = page()
    assert outcome.usage is None
    assert items(outcome) == [{"denied": None}]


def test_the_signals_of_robots_txt_are_those_of_its_pages() -> None:
    outcome = page(robots="User-agent: *\nContent-Signal: ai-train=no\nAllow: /\n")
    assert outcome.usage == {"ai-train": "no", "said": [["robots.txt", "ai-train=no"]]}


def test_the_name_is_that_of_the_request_as_it_was_sent() -> None:
    tags = CIMultiDict(
        [("X-Robots-Tag", f"{name}: {word}") for name, word in
         [("crawlframe", "noindex"), ("ours", "nofollow"), ("mine", "noai"), ("other", "none")]]
    )  # fmt: skip

    class Named(Reader):
        name = "named"
        settings: ClassVar[dict[str, Any]] = {"user_agent": "Ours/1.0"}

    class InHeaders(Reader):
        name = "in_headers"
        settings: ClassVar[dict[str, Any]] = {"headers": {"user-agent": "Other/1"}}

    assert page(fields=tags).usage == {"index": "no", "said": [["X-Robots-Tag", "noindex"]]}
    assert (page(fields=tags, spider=Named).usage or {})["follow"] == "no"
    assert (page(fields=tags, spider=InHeaders).usage or {})["index"] == "no"
    mine = page(fields=tags, spider=Named, headers={"User-Agent": "mine"})
    assert mine.usage == {"ai-train": "no", "said": [["X-Robots-Tag", "noai"]]}


def test_a_page_that_no_callback_gets_has_no_record() -> None:
    outcome = page(fields={"X-Robots-Tag": "noindex"}, status=404)
    assert outcome.verdict is Verdict.ERROR
    assert outcome.usage is None


# -- purpose ---------------------------------------------------------------------------------------


class Trainer(Reader):
    name = "trainer"
    settings: ClassVar[dict[str, Any]] = {"purpose": "ai-train", "retries": 2}

    def sorry(self, error: FetchError) -> Iterator[Any]:
        yield {"reason": error.reason, "url": error.request.url}


@pytest.mark.parametrize(
    ("fields", "robots"),
    [
        ({"Content-Signal": "search=yes, ai-train=no"}, ""),
        ({"X-Robots-Tag": "noai"}, ""),
        ({"tdm-reservation": "1"}, ""),
        ({}, "User-agent: *\nContent-Signal: ai-train=no\nAllow: /"),
    ],
)
def test_a_page_that_denies_the_purpose_ends_before_the_callback(
    fields: dict[str, str], robots: str
) -> None:
    outcome = page(fields=fields, spider=Trainer, robots=robots)
    assert (outcome.verdict, outcome.reason, outcome.items) == (Verdict.ERROR, "usage", [])
    assert outcome.excluded
    assert outcome.usage is not None
    assert "denies ai-train (" in outcome.detail
    assert (outcome.status, outcome.attempts) == (200, 0)


def test_its_errback_is_called() -> None:
    denied = {"Content-Signal": "ai-train=no"}
    outcome = page(fields=denied, spider=Trainer, errback="sorry")
    assert items(outcome) == [{"reason": "usage", "url": URL}]
    assert outcome.excluded


def test_a_page_that_denies_other_uses_is_taken() -> None:
    fields = {"Content-Signal": "ai-input=no, search=no, ai-train=yes", "X-Robots-Tag": "noindex"}
    assert items(page(fields=fields, spider=Trainer)) == [{"denied": False}]
    assert items(page(fields={"Content-Signal": "ai-train=no"})) == [{"denied": True}]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"purpose": "ads"}, "purpose"),
        ({"purpose": "ai-train", "robots": False}, "purpose needs robots"),
    ],
)
def test_a_purpose_that_cannot_be_obeyed_is_refused(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(SpiderError, match=problem):
        read_settings(type("Bad", (Reader,), {"settings": settings}))
