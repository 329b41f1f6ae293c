"""The development cache in a worker: what is replayed, and what is fetched."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, ClassVar

import pytest

from crawlframe import Request, Response, Spider
from crawlframe.fetch.page_cache import PageCache
from crawlframe.frontier.records import Claimed
from crawlframe.node.worker.replay import KEPT_HOST, Replay
from crawlframe.outcome import Outcome
from crawlframe.record import Hop
from crawlframe.request import Admission, make_rid
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
    return Tasks(Shop, downloader, replay=Replay(cache, places=True), **more)


def run(tasks: Tasks, request: Request, host: str = "") -> Outcome:
    rid, record = make_rid(1, request.fingerprint()), request.encode()
    return asyncio.run(tasks.take(Claimed(rid, 1, host or request.host, 0, 0, record)))


def test_a_page_is_fetched_once(cache: PageCache) -> None:
    first, second = Ready(body=b"one", headers=SETS), Ready(body=b"two")
    assert items_of(run(tasks(cache, first), Request(URL)))[0]["body"] == "one"
    again = tasks(cache, second)
    outcome = run(again, Request(URL))
    assert items_of(outcome)[0]["body"] == "one"
    assert (outcome.status, outcome.size, second.asked) == (200, 3, [])
    assert outcome.cookies  # as set by the page
    assert outcome.signal == (0, 0, "")  # it says nothing about the host


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
    placed = Replay(cache, places=True).place([known, new])
    assert placed == [known._replace(host=KEPT_HOST + known.rid.hex()), new]
    assert Replay(cache, places=False).place([known, new]) == [known, new]
    broken = known._replace(record=b"?")
    assert Replay(cache, places=True).place([broken]) == [broken]


@pytest.mark.parametrize("used", [True, False])
def test_what_did_not_wait_is_never_fetched(cache: PageCache, used: bool) -> None:
    nothing = Ready()
    made = tasks(cache, nothing) if used else Tasks(Shop, nothing)
    outcome = run(made, Request(URL), f"{KEPT_HOST}00")
    assert (outcome.verdict, outcome.reason) == ("error", "cache")
    assert "retry the task to fetch it" in outcome.detail
    assert nothing.asked == []


def test_without_the_setting_there_is_none() -> None:
    assert Replay.of(HERE) is None
