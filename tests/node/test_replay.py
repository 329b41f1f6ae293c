"""The development cache in a worker: replays and fetches."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, ClassVar

import pytest

from crawlframe import Request, Response, Spider
from crawlframe.errors import CacheUnusable
from crawlframe.fetch.page_cache import PageCache
from crawlframe.frontier.client.records import Claimed
from crawlframe.node.worker.fetch.replay import KEPT_HOST, PAUSE, CacheReplay
from crawlframe.request.record import Hop
from crawlframe.request.request import Admission, make_rid
from crawlframe.run.outcome import Outcome
from tests.node.runner import HERE, Ready, Tasks
from tests.node.runner import items as items_of

URL = "http://shop.example/a"
SETS: dict[str, str] = {"Content-Type": "text/html", "Set-Cookie": "a=1"}


class Shop(Spider):
    name = "shop"
    settings: ClassVar[dict[str, Any]] = {"handle_statuses": [404], "retry_statuses": [502]}

    def parse(self, response: Response) -> Any:
        yield {"body": response.text, "url": response.url, "hops": len(response.redirects)}


@pytest.fixture
def cache(tmp_path: Path) -> PageCache:
    return PageCache(tmp_path / "pages.sqlite3")


def tasks(cache: PageCache, downloader: Ready, **more: Any) -> Tasks:
    return Tasks(Shop, downloader, replay=CacheReplay(lambda: cache, places=True), **more)


def run(tasks: Tasks, request: Request, host: str = "") -> Outcome:
    rid, record = make_rid(1, request.fingerprint()), request.encode()
    return asyncio.run(tasks.take(Claimed(rid, 1, host or request.host, 0, 0, record)))


def test_a_page_is_fetched_once(cache: PageCache) -> None:
    first, second = Ready(body=b"one", headers=SETS), Ready(body=b"two")
    assert items_of(run(tasks(cache, first), Request(URL)))[0]["body"] == "one"
    again = tasks(cache, second)
    outcome = run(again, Request(URL))
    assert items_of(outcome)[0]["body"] == "one"
    assert (outcome.fetch.status, outcome.fetch.size, second.asked) == (200, 3, [])
    assert outcome.fetch.cookies  # as set by the page
    assert outcome.fetch.signal == (0, 0, "")  # it says nothing about the host


@pytest.mark.parametrize(
    ("status", "kept"),
    [(200, True), (404, True), (500, True), (502, False), (503, False), (403, False)],
)
def test_what_would_be_tried_again_is_not_kept(cache: PageCache, status: int, kept: bool) -> None:
    run(tasks(cache, Ready(status=status)), Request(URL))
    assert cache.has(Request(URL)) == kept


def test_redirects_are_replayed(cache: PageCache) -> None:
    target = Request("http://other.example/b")
    cache.keep_redirect(Request(URL), Hop(302, target.url))
    cache.keep(target, Response(target.url, 200, {}, b"there", target))
    nothing = Ready()
    outcome = run(tasks(cache, nothing, moves=lambda host, target: True), Request(URL))
    assert items_of(outcome) == [{"body": "there", "url": target.url, "hops": 1}]
    assert nothing.asked == []


def test_the_target_that_is_missing_waits_for_its_host(cache: PageCache) -> None:
    cache.keep_redirect(Request(URL), Hop(302, "http://other.example/b"))
    nothing = Ready()
    outcome = run(tasks(cache, nothing, moves=lambda host, target: True), Request(URL))
    assert (outcome.verdict, outcome.target) == ("redirect", "other.example")
    assert nothing.asked == []


def admission(url: str) -> Admission:
    request = Request(url)
    return Admission(make_rid(1, request.fingerprint()), 5, request.host, 0, request.encode())


def test_links_to_kept_pages_do_not_wait_for_their_hosts(cache: PageCache) -> None:
    cache.keep(Request(URL), Response(URL, 200, {}, b"", Request(URL)))
    known, new = admission(URL), admission("http://shop.example/new")
    placed = CacheReplay(lambda: cache, places=True).place([known, new])
    assert placed == [known._replace(host=KEPT_HOST + known.rid.hex()), new]
    assert CacheReplay(lambda: cache, places=False).place([known, new]) == [known, new]
    broken = known._replace(record=b"?")
    assert CacheReplay(lambda: cache, places=True).place([broken]) == [broken]


@pytest.mark.parametrize("used", [True, False])
def test_what_did_not_wait_goes_to_its_host_if_its_page_is_gone(
    cache: PageCache, used: bool
) -> None:
    nothing = Ready()
    made = tasks(cache, nothing) if used else Tasks(Shop, nothing)
    outcome = run(made, Request(URL), f"{KEPT_HOST}00")
    assert (outcome.verdict, outcome.target) == ("redirect", "shop.example")
    assert outcome.record == Request(URL).encode()
    assert nothing.asked == []


@pytest.mark.parametrize("kept", [True, False])
def test_a_replayed_page_costs_no_bytes(cache: PageCache, kept: bool) -> None:
    class Bounded(Shop):
        settings: ClassVar[dict[str, Any]] = {"host_byte_limit": 10}

    if kept:
        cache.keep(Request(URL), Response(URL, 200, {}, b"x" * 99, Request(URL)))
    replay = CacheReplay(lambda: cache, places=True)
    outcome = run(Tasks(Bounded, Ready(body=b"y" * 99), replay=replay), Request(URL))
    assert (outcome.fetch.size, outcome.fetch.budget is None) == (99, kept)


class Broken(PageCache):
    """It cannot be opened the first time."""

    times = 0

    def __init__(self, path: Path) -> None:
        type(self).times += 1
        if self.times == 1:
            raise CacheUnusable("the disk is full")
        super().__init__(path)


def test_a_cache_that_cannot_be_used_is_left_alone_for_a_minute(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    now = [0.0]
    replay = CacheReplay(lambda: Broken(tmp_path / "pages"), places=True, clock=lambda: now[0])
    for body in (b"1", b"2"):
        made = Tasks(Shop, Ready(body=body, headers=SETS), replay=replay)
        assert items_of(run(made, Request(URL)))[0]["body"] == body.decode()
    assert replay.place([admission(URL)]) == [admission(URL)]
    assert (Broken.times, caplog.text.count("pages are fetched and not kept: the disk is")) == (
        1,
        1,
    )
    now[0] = PAUSE
    for body in (b"3", b"4"):
        made = Tasks(Shop, Ready(body=body, headers=SETS), replay=replay)
        assert items_of(run(made, Request(URL)))[0]["body"] == "3"


def test_without_the_setting_there_is_none() -> None:
    assert CacheReplay.of(HERE) is None
