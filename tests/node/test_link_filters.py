"""Links beyond a limit are dropped where they are found. The sieve is bounded, and right."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import msgspec
import pytest

from crawlframe import Request, Response, Spider
from crawlframe.base.limits import UNFOLLOWED, ByteBudget
from crawlframe.errors import SpiderError
from crawlframe.node.worker.crawl.traps import TrapWatch
from crawlframe.run.link_filters import LinkLimits, Sieve
from crawlframe.run.outcome import Outcome, Verdict
from crawlframe.spider.settings import SpiderSettings
from crawlframe.spider.spider import describe, read_settings
from crawlframe.testing import make_response, run
from tests.node.runner import HTML, Ready, Tasks
from tests.node.test_traps import calendar

SITE = "http://shop.example"


def limits(budget: ByteBudget | None = None, **settings: Any) -> LinkLimits:
    given = {"url_length": 0, "repeated_segments": 0, "traps": "off", **settings}
    return LinkLimits(SpiderSettings(**given), budget, None)


def test_without_limits_nothing_is_asked() -> None:
    assert not limits().limits
    assert limits(url_length=1).limits
    assert LinkLimits(SpiderSettings(), None, None).limits
    everything = limits()
    for url in (f"{SITE}/{'x' * 9000}", f"{SITE}{'/a' * 90}", f"{SITE}/?{'a&' * 90}"):
        assert everything.refuses(url, 1_000_000) == ""


@pytest.mark.parametrize(("length", "refused"), [(2083, ""), (2084, "url_length")])
def test_long_urls(length: int, refused: str) -> None:
    url = f"{SITE}/".ljust(length, "x")
    assert LinkLimits(SpiderSettings(), None, None).refuses(url, 0) == refused


@pytest.mark.parametrize(
    ("path", "refused"),
    [
        ("/a/b/a/b/a/b/c/d/e/f", False),
        ("/a/b/a/b/a/b/a/d/e", True),
        ("/a/b/a/b/a/b/a/b", False),  # it is short
        ("/a/b/a/b/a/b/a/b/", True),
        ("/a/a/a/a/a/a/a/a/a", True),
        ("/2026/11/11/11/11/page", False),
        ("//////x////////////", False),
        ("/docs/en/stable/library/os/path/join/a/b/c.html", False),
        ("/go?to=/a/a/a/a/a/a/a/a/a/a/a", False),
    ],
)
def test_paths_that_repeat_a_segment(path: str, refused: bool) -> None:
    reason = LinkLimits(SpiderSettings(), None, None).refuses(SITE + path, 0)
    assert reason == ("repeated_segments" if refused else "")


def test_sets_of_query_names() -> None:
    few = limits(query_permutations=2)
    asked = ["?a=1", "?b=1&a=2", "?a=7&b=8", "?c=1", "?a=2&c=1", "", "?b&a"]
    refused = [few.refuses(f"{SITE}/list{query}", 0) for query in asked]
    assert [bool(reason) for reason in refused] == [0, 0, 0, 1, 1, 0, 0]
    assert {*refused} == {"", "query_permutations"}
    assert few.refuses(f"{SITE}/other?c=1", 0) == ""


def test_hosts_that_have_spent_their_bytes() -> None:
    budget = ByteBudget(0, 1000, {"a.example": 1000, "b.example": 999})
    some = limits(budget)
    assert some.refuses("http://a.example/x", 0) == "host_byte_limit"
    assert some.refuses("http://b.example/x", 0) == ""
    assert not limits(ByteBudget(1000, 0)).limits


@pytest.mark.parametrize(("traps", "refused"), [("stop", "trap"), ("report", "")])
def test_urls_of_a_trap(traps: Literal["stop", "report"], refused: str) -> None:
    watch = TrapWatch(1)
    for url, body in calendar():
        watch.see(url, body)
    some = LinkLimits(SpiderSettings(traps=traps), None, watch)
    assert some.refuses(f"{SITE}/calendar/2150/1", 0) == refused
    assert some.refuses(f"{SITE}/product/17", 0) == ""


class Shop(Spider):
    name = "shop"
    allowed_domains = ("shop.example",)
    settings = {
        "links_per_page": 2, "url_length": 41, "repeated_segments": 1, "depth_limit": 1,
        "traps": "off",
    }  # fmt: skip

    def start(self) -> Any:
        yield Request(f"{SITE}/")

    def parse(self, response: Response) -> Any:
        for link in response.css("a"):
            yield response.follow(link, self.deep)

    def deep(self, response: Response) -> Any:
        self.stats.inc("pages")
        for path in ("/x", "/y", "http://other.example/"):
            yield response.follow(path, self.deep)


def test_a_test_of_a_spider_sees_what_was_dropped() -> None:
    long, loop = f"/{'x' * 50}", "/a/a/b/c/d/e/f/g/h"
    links = ["/1", "/1", long, long, loop, "/2", "/3", "/4", "http://other.example/"]
    page = make_response(f"{SITE}/", html="".join(f'<a href="{link}">x</a>' for link in links))
    result = run(Shop, page)
    assert [request.url for request in result.requests] == [f"{SITE}/1", f"{SITE}/2"]
    assert result.unfollowed == {"url_length": 1, "repeated_segments": 1, "links_per_page": 2}
    assert (result.stats, result.dropped) == ({}, {})


def page(spider: type[Spider], body: bytes = b"x" * 600, depth: int = 0) -> Outcome:
    request = Request(f"{SITE}/", "deep")
    request.depth = depth
    return asyncio.run(Tasks(spider, Ready(body=body, headers=HTML)).run(request))


def test_links_below_the_depth_limit_are_counted() -> None:
    outcome = page(Shop, depth=1)
    assert outcome.results.follow_ups == []
    assert outcome.results.stats is not None
    assert outcome.results.stats.counters == {"pages": 1, f"{UNFOLLOWED}depth_limit": 2}


def test_a_request_to_a_host_without_bytes_left_ends_unfetched() -> None:
    class Small(Shop):
        settings = {"host_byte_limit": 1000}

    downloader = Ready(body=b"x" * 600, headers=HTML)
    tasks = Tasks(Small, downloader)

    async def crawl() -> list[Outcome]:
        outcomes = []
        for n in range(3):
            outcome = await tasks.run(Request(f"{SITE}/{n}", "deep"))
            if outcome.fetch.budget:
                outcome.fetch.budget.spent[outcome.host] = 600 * (n + 1)  # as the committer does
            outcomes.append(outcome)
        return outcomes

    first, second, third = asyncio.run(crawl())
    assert len(first.results.follow_ups) == len(second.results.follow_ups) == 2
    assert (third.verdict, third.reason) == (Verdict.ERROR, "cancelled")
    assert third.detail == "host_byte_limit of shop.example"
    assert third.results.stats is not None
    assert third.results.stats.counters == {f"{UNFOLLOWED}host_byte_limit": 1}
    assert len(downloader.asked) == 2


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"byte_limit": -1}, "byte_limit must be a whole number, at least 0"),
        ({"host_page_limit": -5}, "host_page_limit must be a whole number, at least 0"),
        ({"time_limit": "soon"}, "time_limit must be a number"),
        ({"traps": "halt"}, "traps must be one of report, stop, off"),
        ({"bytes_limit": 1}, "did you mean 'byte_limit'"),
        ({"delay": None}, "delay must be a number or auto"),
    ],
)
def test_wrong_budgets_are_named(settings: dict[str, Any], words: str) -> None:
    wrong = type("Wrong", (Shop,), {"settings": settings})
    with pytest.raises(SpiderError, match=words):
        read_settings(wrong)


def test_none_is_no_limit() -> None:
    none = type("None", (Shop,), {"settings": {"url_length": None, "links_per_page": None}})
    settings = read_settings(none)
    assert (settings.url_length, settings.links_per_page) == (0, 0)


def test_what_is_published_can_be_read_by_older_nodes() -> None:
    class Plain(Spider):
        name = "plain"
        settings = {"page_limit": 5}

        def start(self) -> Any: ...

    published = msgspec.json.decode(msgspec.json.encode(describe(Plain)))
    assert published["settings"] == {"page_limit": 5}


def test_names_of_stats_that_count_links_are_refused() -> None:
    with pytest.raises(SpiderError, match="begin with 'unfollowed/' count links"):
        Shop().stats.inc("unfollowed/mine")


def knows(sieve: Sieve, task: int, fingerprint: bytes) -> bool:
    return any(fingerprint in some for some in sieve.of(task))


def test_it_knows_what_was_added_for_that_task_only() -> None:
    sieve = Sieve()
    sieve.add(1, [b"a", b"b"])
    assert knows(sieve, 1, b"a")
    assert not knows(sieve, 1, b"c")
    assert not knows(sieve, 2, b"a")


def test_it_forgets_the_oldest_generation() -> None:
    sieve = Sieve(size=10)
    for number in range(100):
        sieve.add(1, [b"%d" % number])
    known = [number for number in range(100) if knows(sieve, 1, b"%d" % number)]
    assert known[-1] == 99
    assert 5 <= len(known) <= 22
    assert known == list(range(known[0], 100))
