"""Notes of a visit: watched requests, the compared part of a page, and its items."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from crawlframe import Request, Response, Revisit, Spider
from crawlframe.errors import SpiderError
from crawlframe.run.outcome import Outcome
from crawlframe.run.revisit_notes import Watching
from crawlframe.spider.task_info import Summary
from crawlframe.spiders.sitemap import ListedRequest, SitemapSpider
from tests.node.runner import Ready, Tasks

URL = "https://news.example/a"
PAGE = b"<html><body><h1>News</h1><p class='ad'>%s</p><script>%s</script></body></html>"


class News(Spider):
    name = "news"
    revisit = Revisit(every="1d")

    def parse(self, response: Any) -> None: ...

    def headline(self, response: Response) -> str:
        return str(response.css("h1::text").get())

    def wrong(self, response: Response) -> Any:
        return 5

    def importance(self, request: Request) -> Any:
        return 7 if request.url == URL else "much"


def looked(policy: Revisit, body: bytes, *items: bytes, kind: str = "text/html") -> Outcome:
    spider = type("Of", (News,), {"revisit": policy})()
    watching = Watching.of(3, spider)
    outcome = Outcome(b"r" * 16, 1, "news.example", b"", 0, 0)
    outcome.results.visit, outcome.results.items = watching.visit("parse"), [*items]
    response = Response(URL, 200, {"Content-Type": kind}, body, Request(URL))
    watching.look(outcome, spider, response.request, response)
    return outcome


def digest(policy: Revisit, body: bytes, *items: bytes, kind: str = "text/html") -> bytes:
    visit = looked(policy, body, *items, kind=kind).results.visit
    assert visit is not None
    assert visit.digest is not None
    return visit.digest


DAILY = Revisit(every="1d")
NOW = datetime(2026, 11, 20, tzinfo=UTC)


def test_items_are_compared_if_there_are_some() -> None:
    assert digest(DAILY, b"x", b'{"a":1}', b'{"b":2}') == digest(
        DAILY, b"y", b'{"b":2}', b'{"a":1}'
    )
    assert digest(DAILY, b"x", b'{"a":1}') != digest(DAILY, b"x", b'{"a":2}')


def test_else_what_is_read_of_the_page() -> None:
    assert digest(DAILY, PAGE % (b"buy", b"1")) == digest(DAILY, PAGE % (b"buy  ", b"2"))
    assert digest(DAILY, PAGE % (b"buy", b"")) != digest(DAILY, PAGE % (b"sell", b""))
    assert digest(DAILY, b"a", kind="image/png") != digest(DAILY, b"b", kind="image/png")


def test_what_is_ignored_does_not_count() -> None:
    quiet = Revisit(every="1d", ignore=".ad")
    assert digest(quiet, PAGE % (b"buy", b"")) == digest(quiet, PAGE % (b"sell", b""), b'{"a":1}')


def test_a_page_may_be_compared_as_the_spider_says() -> None:
    own = Revisit(every="1d", compare="headline")
    assert digest(own, PAGE % (b"1", b"2"), b'{"a":1}') == digest(own, PAGE % (b"3", b"4"))
    body = Revisit(every="1d", compare="body")
    assert digest(body, PAGE % (b"1", b""), b'{"a":1}') == digest(body, PAGE % (b"1", b""))
    with pytest.raises(SpiderError, match="wrong must return text or bytes, not int"):
        digest(Revisit(every="1d", compare="wrong"), b"")


def test_items_have_keys() -> None:
    def keys(policy: Revisit, *items: bytes) -> list[bytes]:
        visit = looked(policy, b"", *items).results.visit
        assert visit is not None
        return visit.keys

    by_id = Revisit(every="1d", key=("id", "size"))
    assert keys(by_id, b'{"id":1,"size":2,"x":3}') == keys(by_id, b'{"x":4,"size":2,"id":1}')
    assert keys(by_id, b'{"id":1}') != keys(by_id, b'{"id":2}')
    one, two = keys(DAILY, b'{"id":1}', b'{"id":1}')
    assert one != two
    assert keys(by_id, b'{"x":1}') == [one]  # by its place


def test_what_is_watched_and_what_belongs_to_a_visit() -> None:
    watching = Watching.of(3, News())
    assert watching.takes(Request(URL))
    assert not watching.takes(Request(URL, method="POST"))
    assert not watching.takes(Request(URL, dont_filter=True))
    own = type("Own", (News,), {"revisit": {"parse": DAILY}, "other": lambda self, response: None})
    assert not Watching.of(3, own()).takes(Request(URL, "other"))


def test_importance_is_a_number() -> None:
    watching = Watching.of(3, News())
    request = Request(URL)
    found = watching.found(request, request.fingerprint(), request.host, 5)
    assert (found.importance, found.callback, found.group, found.lastmod) == (7, "parse", "*", None)
    assert Request.decode(found.record) == request
    other = Request("https://news.example/b")
    with pytest.raises(SpiderError, match="importance returned 'much'"):
        watching.found(other, other.fingerprint(), other.host, 5)


def test_a_spider_must_still_say_when() -> None:
    with pytest.raises(SpiderError, match="no revisit any more"):
        Watching.of(3, type("Not", (News,), {"revisit": None})())


class Map(SitemapSpider):
    name = "map"
    sitemap_urls = ("https://news.example/sitemap.xml",)
    revisit = Revisit(by="lastmod")

    def parse(self, response: Any) -> None: ...


def test_sitemaps_tell_when_pages_changed() -> None:
    spider = Map()
    listed = spider._listed(URL, "parse", "2026-11-20T10:00:00Z")
    assert isinstance(listed, ListedRequest)
    assert listed.lastmod == datetime(2026, 11, 20, 10, tzinfo=UTC).timestamp()
    assert type(spider._listed(URL, "parse", "soon")) is Request
    watching = Watching.of(3, spider)
    found = watching.found(listed, listed.fingerprint(), listed.host, 5)
    assert found.lastmod == listed.lastmod
    assert Request.decode(found.record) == Request(URL, "parse")
    assert not watching.takes(spider.sitemap_request("https://news.example/sitemap.xml"))


def test_what_follow_and_middlewares_change_is_still_listed() -> None:
    listed = Map()._listed(URL, "parse", "2026-11-20T10:00:00Z")
    changed = listed.replace(priority=5)
    assert isinstance(listed, ListedRequest)
    assert isinstance(changed, ListedRequest)
    assert (changed.url, changed.callback, changed.priority) == (URL, "parse", 5)
    assert changed.lastmod == listed.lastmod
    assert type(Request(URL).replace(priority=5)) is Request


class Mixed(Spider):
    """Has items of all kinds."""

    name = "mixed"
    revisit = {"parse_page": Revisit(every="1d", key="id"), "start": Revisit(every="1d")}

    def start(self) -> Any:
        yield {"id": 1}
        yield Request(URL, "parse_list", errback="failed")

    def parse_list(self, response: Response) -> Any:
        yield {"id": 2}
        yield {"id": 3}
        yield Request(f"{URL}/page", "parse_page")

    def parse_page(self, response: Response) -> Any:
        yield {"id": 4}

    def failed(self, error: Any) -> Any:
        yield {"id": 5}

    def closed(self, summary: Any) -> Any:
        yield {"id": 6}


def test_all_items_have_keys_also_those_that_belong_to_another_visit() -> None:
    async def main(downloader: Ready) -> list[Outcome]:
        tasks = Tasks(Mixed, downloader)
        assert tasks.spec is not None
        tasks.spec = tasks.spec._replace(watch=3)
        tasks.summary = Summary(1, "mixed", {}, "", "", NOW, NOW, 0, 0, 0, 0, 0, {}, {})
        first = [await tasks.start()]
        for callback in ("parse_list", "parse_page"):
            first.append(await tasks.run(Request(URL, callback, errback="failed")))
        return [*first, await tasks.end()]

    both = [*asyncio.run(main(Ready(body=b"x"))), *asyncio.run(main(Ready(status=404)))]
    assert [len(outcome.results.items) for outcome in both] == [1, 2, 1, 1, 1, 1, 1, 1]
    for outcome in both:
        assert outcome.results.visit is not None
        assert len({*outcome.results.visit.keys}) == len(outcome.results.items)
