"""Declared uses of pages, in a worker: recorded, and obeyed if the spider says so."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
from multidict import CIMultiDict

from crawlframe.errors import FetchError, SpiderError
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlframe.robots.rules import Rules
from crawlframe.run.outcome import Outcome, Verdict
from crawlframe.spider.spider import Spider, read_settings
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
    assert outcome.fetch.usage == {"ai-train": "no", "said": [["meta robots", "noai"]]}
    assert items(outcome) == [{"denied": True}]


def test_a_page_that_says_nothing_has_no_record() -> None:
    outcome = page()
    assert outcome.fetch.usage is None
    assert items(outcome) == [{"denied": None}]


def test_the_signals_of_robots_txt_are_those_of_its_pages() -> None:
    outcome = page(robots="User-agent: *\nContent-Signal: ai-train=no\nAllow: /\n")
    assert outcome.fetch.usage == {"ai-train": "no", "said": [["robots.txt", "ai-train=no"]]}


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

    assert page(fields=tags).fetch.usage == {"index": "no", "said": [["X-Robots-Tag", "noindex"]]}
    assert (page(fields=tags, spider=Named).fetch.usage or {})["follow"] == "no"
    assert (page(fields=tags, spider=InHeaders).fetch.usage or {})["index"] == "no"
    mine = page(fields=tags, spider=Named, headers={"User-Agent": "mine"})
    assert mine.fetch.usage == {"ai-train": "no", "said": [["X-Robots-Tag", "noai"]]}


def test_a_page_that_no_callback_gets_has_no_record() -> None:
    outcome = page(fields={"X-Robots-Tag": "noindex"}, status=404)
    assert outcome.verdict is Verdict.ERROR
    assert outcome.fetch.usage is None


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
    assert (outcome.verdict, outcome.reason, outcome.results.items) == (Verdict.ERROR, "usage", [])
    assert outcome.excluded
    assert outcome.fetch.usage is not None
    assert "denies ai-train (" in outcome.detail
    assert (outcome.fetch.status, outcome.attempts) == (200, 0)


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


# -- nofollow and noindex --------------------------------------------------------------------------

LINKS = b"""<a href=/1>1</a> <a href=/2 rel="ugc NoFollow">2</a> <a href=/3 rel=nofollow>3</a>
<a href=/3>3, once more</a> <area href=/4 rel=nofollow> <link href=/5 rel=nofollow>
<a href=mailto:x rel=external>x</a> <a rel=nofollow>no link</a> <a href=/2 rel=nofollow>2</a>"""
PLAIN = ["/1", "/3"]
ALL = ["/1", "/2", "/3", "/4"]


class Follower(Reader):
    name = "follower"

    def parse(self, response: Response) -> Iterator[Any]:
        yield from response.follow_all(response.links())

    def nodes(self, response: Response) -> Iterator[Any]:
        yield from response.follow_all(response.tree.css("[href]"))

    def css(self, response: Response) -> Iterator[Any]:
        yield from response.follow_all(css="[href]")

    def tags(self, response: Response) -> Iterator[Any]:
        yield from response.follow_all(response.soup.select("[href]"))

    def texts(self, response: Response) -> Iterator[Any]:
        yield from response.follow_all(css="a::attr(href), area::attr(href)")

    def explicit(self, response: Response) -> Iterator[Any]:
        yield response.follow(response.tree.css_first("[rel]"))
        yield Request("http://shop.example/3", dont_filter=True)

    def twice(self, response: Response) -> Iterator[Any]:
        yield {"links": [*response.links(), *response.links()]}


class Obedient(Follower):
    name = "obedient"
    settings: ClassVar[dict[str, Any]] = {"obey_nofollow": True, "obey_noindex": True}


def paths(outcome: Outcome) -> list[str]:
    urls = [Request.decode(admission.record).url for admission in outcome.results.follow_ups]
    return sorted(url.removeprefix("http://shop.example") for url in urls)


def counters(outcome: Outcome) -> dict[str, int]:
    return outcome.results.stats.counters if outcome.results.stats else {}


@pytest.mark.parametrize(
    ("callback", "taken", "refused"),
    [
        ("parse", PLAIN, 2),
        ("nodes", PLAIN, 4),
        ("css", PLAIN, 4),
        ("tags", PLAIN, 4),
        ("texts", ALL, 0),
        ("explicit", ["/2", "/3"], 0),
    ],
)
def test_links_with_rel_nofollow_are_not_followed(
    callback: str, taken: list[str], refused: int
) -> None:
    outcome = page(LINKS, spider=Obedient, callback=callback)
    assert paths(outcome) == taken
    assert counters(outcome) == ({"unfollowed/nofollow": refused} if refused else {})


@pytest.mark.parametrize("callback", ["parse", "texts"])
def test_they_are_followed_unless_the_spider_obeys(callback: str) -> None:
    outcome = page(LINKS, spider=Follower, callback=callback)
    assert paths(outcome) == ALL
    assert outcome.results.stats is None


def test_a_link_counts_once() -> None:
    outcome = page(LINKS, spider=Obedient, callback="twice")
    assert counters(outcome) == {"unfollowed/nofollow": 2}


@pytest.mark.parametrize("callback", ["parse", "explicit"])
def test_of_a_page_that_says_nofollow_no_request_is_taken(callback: str) -> None:
    body = b"<meta name=robots content=nofollow><a href=/1>1</a><a href=/2 rel=next>2</a>"
    outcome = page(body, spider=Obedient, callback=callback)
    assert (outcome.verdict, paths(outcome)) == (Verdict.DONE, [])
    assert counters(outcome) == {"unfollowed/nofollow": 2}
    assert len(paths(page(body, spider=Follower, callback=callback))) == 2


passed: list[Any] = []


def keep(item: Any, response: Response | None) -> Any:
    passed.append(item)
    return item


class Keeper(Follower):
    name = "keeper"

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"n": 1}
        yield from response.follow_all(response.links())
        yield {"n": 2}

    def wrong(self, response: Response) -> Iterator[Any]:
        yield "no item"


class Forgetful(Keeper):
    name = "forgetful"
    settings: ClassVar[dict[str, Any]] = {"obey_noindex": True}


@pytest.mark.parametrize("pipelines", [[], [keep]])
def test_of_a_page_that_says_noindex_no_item_is_stored(pipelines: list[Any]) -> None:
    body = b"<meta name=robots content=noindex><a href=/1 rel=nofollow>1</a>"
    spider = type("Own", (Forgetful,), {"pipelines": pipelines})
    passed.clear()
    outcome = page(body, spider=spider)
    assert (outcome.verdict, outcome.results.items) == (Verdict.DONE, [])
    assert paths(outcome) == ["/1"], "its links are followed"
    assert counters(outcome) == {"dropped/noindex": 2}
    assert passed == []
    assert page(body, spider=spider, callback="wrong").reason == "callback"
    assert len(page(spider=spider).results.items) == 2
    assert len(page(body, spider=Keeper).results.items) == 2


def test_a_page_that_has_become_unavailable_is_not_stored() -> None:
    fields = HTML | {"X-Robots-Tag": "unavailable_after: 2020-01-01"}
    assert page(fields=fields, spider=Forgetful).results.items == []
