"""Callbacks of a Scrapy spider in a worker."""

from __future__ import annotations

import asyncio
import sys
from types import ModuleType
from typing import Any

import pytest
import scrapy
from scrapy.exceptions import CloseSpider

from crawlframe.errors import DnsError, SpiderError
from crawlframe.items.encode import encode_item
from crawlframe.request.request import Request
from crawlframe.scrapy.port import with_text
from crawlframe.scrapy.spider import PortedSpider
from crawlframe.testing import make_response, run
from tests.scrapy_projects.ported_spiders import URL, Plain, of
from tests.scrapy_projects.shop.shop import items


def test_a_page_is_a_response_of_scrapy() -> None:
    page = make_response(URL, html="<p>a")
    assert run(of(Plain), page).items == [{"url": URL, "kind": "HtmlResponse"}]
    xml = make_response(URL, body=b"<a/>", headers={"Content-Type": "text/xml"})
    assert run(of(Plain), xml).items[0]["kind"] == "XmlResponse"


def test_an_errback_gets_a_failure() -> None:
    request = Request(URL, errback="failed")
    error = DnsError("no address")
    error.request = request
    found = run(of(Plain), error)
    assert found.items == [{"http": False, "dns": True}]
    gone = run(of(Plain), request, download=lambda asked: make_response(URL, status=404))
    assert gone.items == [{"http": True, "dns": False}]


class Closing(Plain):
    name = "closing"

    def parse(self, response: Any, **more: Any) -> Any:
        yield {"a": 1}
        raise CloseSpider("enough")


def test_close_spider_closes_the_task() -> None:
    found = run(of(Closing), make_response(URL, html=""))
    assert (found.items, found.closing) == ([{"a": 1}], "enough")


class Bytes(Plain):
    name = "bytes"

    def parse(self, response: Any, **more: Any) -> Any:
        yield items.Product(name=response.body)


def test_fields_of_bytes_are_stored_as_text() -> None:
    found = run(of(Bytes), make_response(URL, body="é".encode()))
    assert found.items == [{"name": "é"}]
    picture = {"picture": b"\xff"}
    with pytest.raises(SpiderError, match="decode it to text first"):
        encode_item(with_text(picture))


class Steers(Plain):
    """Uses crawler.engine and reads the stats that Scrapy's own parts count."""

    name = "steers"

    def parse(self, response: Any, **more: Any) -> Any:
        engine: Any = self.crawler.engine
        engine.crawl(scrapy.Request(f"{URL}asked"))
        yield scrapy.Request(f"{URL}yielded")
        engine.close_spider(self, "enough")
        stats: Any = self.crawler.stats
        names = ("scheduler/enqueued", "response_received_count", "item_scraped_count")
        yield {name: stats.get_value(name) for name in names}
        yield {"late": stats.get_value("item_scraped_count")}


def test_the_engine_queues_requests_and_ends_the_task_after_the_callback() -> None:
    found = run(of(Steers), make_response(URL, html=""))
    assert [request.url for request in found.requests] == [f"{URL}yielded", f"{URL}asked"]
    first = {"scheduler/enqueued": 1, "response_received_count": 1, "item_scraped_count": None}
    assert found.items == [first, {"late": 1}]
    assert found.closing == "enough"


def test_an_engine_that_is_closing_runs_no_further_callback() -> None:
    made = of(Steers)._make({})
    assert isinstance(made, PortedSpider)
    asyncio.run(made._opened_port().crawler.engine.close_spider_async(reason="sample"))
    assert run(made, make_response(URL, html="")).closing == "sample"


def test_the_engine_queues_nothing_outside_of_a_callback() -> None:
    made = of(Plain)._make({})
    assert isinstance(made, PortedSpider)
    with pytest.raises(RuntimeError, match="only while a callback runs"):
        made._opened_port().crawler.engine.crawl(scrapy.Request(URL))


def test_a_reactor_that_the_project_has_imported_does_no_harm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "twisted.internet.reactor", ModuleType("reactor"))
    assert run(of(Plain), make_response(URL, html="")).items


class Old(Plain):
    """A spider for Scrapy before 2.13."""

    name = "old"

    def start_requests(self) -> Any:
        yield scrapy.Request(f"{URL}old")


def test_start_requests_is_called_if_it_is_what_the_spider_has() -> None:
    (request,) = run(of(Old)).requests
    assert request.url == f"{URL}old"


def test_a_page_that_would_hold_up_the_worker_is_not_parsed() -> None:
    class Reads(Plain):
        name = "reads"

        def parse(self, response: Any, **more: Any) -> Any:
            yield {"found": response.css("b").get()}

    deep = make_response(URL, html="<div>" * 100_000)
    with pytest.raises(Exception, match="inside each other"):
        run(of(Reads), deep)


class Stamps:
    def process_request(self, request: Any) -> None:
        request.headers["X-Stamp"] = "1"


def test_middlewares_run_in_a_task_and_say_so() -> None:
    made = of(Plain, DOWNLOADER_MIDDLEWARES={Stamps: 1})
    seen: list[str] = []

    def download(asked: Request) -> Any:
        seen.append(asked.headers["X-Stamp"])
        return make_response(URL, html="", request=asked)

    assert run(made, Request(URL), download=download).items
    assert seen == ["1"]
    (middleware,) = made.middlewares
    with pytest.raises(SpiderError, match="run only in a task"):
        asyncio.run(middleware.fetch(Request(URL), None))  # type: ignore[arg-type, call-arg]
