"""Partials, headers, signals and exceptions, by Scrapy and by our engine: equal items and stats."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from crawlframe.scrapy.project import spiders_of
from crawlframe.scrapy.report import verdict_on
from crawlframe.scrapy.spider import PortedSpider
from tests.scrapy_projects.beside import Beside, as_set, beside_scrapy
from tests.scrapy_projects.ported_spiders import write_project

pytestmark = [
    pytest.mark.process,
    pytest.mark.filterwarnings("ignore::scrapy.exceptions.ScrapyDeprecationWarning"),
]
SETTINGS = """
SPIDER_MODULES = ["parity.spiders", "parity.failing"]
ROBOTSTXT_OBEY = False
DOWNLOAD_DELAY = 0
RETRY_ENABLED = False
TELNETCONSOLE_ENABLED = False
USER_AGENT = "parity/1"
DEFAULT_REQUEST_HEADERS = {"Accept": "text/html", "x-shop": "s"}
"""
SPIDERS = """
import functools
from functools import partial
import scrapy
from scrapy import signals

class Partials(scrapy.Spider):
    name = "partials"
    async def start(self):
        yield scrapy.Request(f"{self.site}/list", callback=partial(self.listed, kind="a"))
    def listed(self, response, kind, more=1):
        yield {"kind": kind, "more": more}
        one = functools.partial(functools.partial(self.listed_too, a=1), b=2)
        yield response.follow("/item/1", one, cb_kwargs={"b": 3}, meta={"m": 1})
        yield scrapy.FormRequest(f"{self.site}/echo", formdata={"a": "b"},
                                 callback=partial(self.listed_too, a=4, b=5))
    def listed_too(self, response, a, b):
        yield {"url": response.url[-6:], "a": a, "b": b, "m": response.meta.get("m")}

class Headers(scrapy.Spider):
    name = "headers"
    custom_settings = {"SPIDER_MIDDLEWARES": {}}
    async def start(self):
        for n, given in enumerate([{}, {"X-Shop": "own"}, {"user-agent": "me"}]):
            yield scrapy.Request(f"{self.site}/echo/{n}", headers=given)
    def parse(self, response):
        names = ("Accept", "X-Shop", "User-Agent")
        heads = response.request.headers
        sent = {one: response.json()["h"].get(one.lower()) for one in names[1:]}
        found = {one: heads.get(one).decode() for one in names}
        yield {"n": response.url[-1], "all": [len(heads.getlist(one)) for one in names],
               "found": found, "sent": sent}

class Layered(Headers):
    name = "layered"
    class Look:
        def process_request(self, request):
            request.meta["seen"] = request.headers.get("User-Agent").decode()
    custom_settings = {"DOWNLOADER_MIDDLEWARES": {Look: 950}}
    def parse(self, response):
        for one in super().parse(response):
            yield {**one, "seen": response.meta["seen"]}

SENT = ["engine_started", "spider_opened", "request_scheduled", "request_reached_downloader",
        "headers_received", "bytes_received", "request_left_downloader", "response_downloaded",
        "response_received", "item_scraped", "spider_error", "spider_closed"]
class Signals(scrapy.Spider):
    name = "signals"
    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.heard = {}
        spider.handlers = []
        for name in SENT:
            def hear(_name=name, **told):
                spider.heard[_name] = spider.heard.get(_name, 0) + 1
            spider.handlers.append(hear)
            crawler.signals.connect(hear, signal=getattr(signals, name))
        return spider
    async def start(self):
        yield scrapy.Request(f"{self.site}/item/1")
        yield scrapy.Request(f"{self.site}/gone", errback=self.gone)
    def parse(self, response):
        yield {"n": 1}
        raise ValueError("late")
    def gone(self, failure):
        yield {"n": 2}
    def closed(self, reason):
        with open(self.out, "w") as file:
            file.write(repr(sorted(self.heard.items())))
    out = ""
"""
NAMES = ["partials", "headers", "layered"]


FAILING = """
import asyncio
import scrapy
from scrapy.exceptions import CloseSpider, DropItem

class Base(scrapy.Spider):
    def at(self, n, **more):
        return scrapy.Request(f"{self.site}/item/{n}", **more)

    async def start(self):
        yield scrapy.Request(f"{self.site}/list")

    def parse(self, response):
        for n in range(3):
            yield {"n": n}
            yield self.at(n, callback=self.parse_item)
        self.crawler.stats.inc_value("my/parsed")

    def parse_item(self, response):
        yield {"item": response.url[-1]}

class Plain(Base):
    name = "plain"
    def parse(self, response):
        yield from super().parse(response)
        raise ValueError("late")

class Within(Base):
    name = "within"
    def parse_item(self, response):
        yield {"item": response.url[-1]}
        if response.url.endswith("1"):
            {}["missing"]
        yield {"after": response.url[-1]}

class AtOnce(Base):
    name = "at_once"
    def parse_item(self, response):
        if response.url.endswith("1"):
            raise TypeError("no")
        return [{"item": response.url[-1]}]

class Async(Base):
    name = "async"
    async def parse(self, response):
        for thing in super().parse(response):
            yield thing
            await asyncio.sleep(0)
        raise ValueError("late")

class Start(Base):
    name = "start"
    async def start(self):
        for n in range(3):
            yield self.at(n, callback=self.parse_item)
        raise ValueError("the list ends")

class Errback(Base):
    name = "errback"
    async def start(self):
        yield scrapy.Request(f"{self.site}/gone", errback=self.failed)
    def failed(self, failure):
        yield {"status": failure.value.response.status}
        yield self.at(1, callback=self.parse_item)
        raise ValueError("in the errback")

class Refused(Base):
    name = "refused"
    def parse(self, response):
        yield {"n": 1}
        yield "a text"
        yield 5
        yield from super().parse(response)

class Queued(Base):
    name = "queued"
    def parse(self, response):
        self.crawler.engine.crawl(self.at(1, callback=self.parse_item))
        raise ValueError("after crawl")

class Closes(Base):
    name = "closes"
    def parse(self, response):
        yield {"n": 1}
        raise CloseSpider("enough")

class Bad:
    def process_item(self, item):
        if item.get("n") == 1:
            raise ValueError("not 1")
        if item.get("item") == "2":
            raise KeyError("2")
        if item.get("item") == "0":
            raise DropItem("0")
        return item

class BadAsync(Bad):
    async def process_item(self, item):
        await asyncio.sleep(0)
        return super().process_item(item)

class Next:
    def process_item(self, item):
        return {**item, "next": True}

class Piped(Base):
    name = "piped"
    custom_settings = {"ITEM_PIPELINES": {Bad: 1, Next: 2}}

class PipedAsync(Base):
    name = "piped_async"
    custom_settings = {"ITEM_PIPELINES": {BadAsync: 1, Next: 2}}

class PipedAndRaises(Base):
    name = "piped_and_raises"
    custom_settings = {"ITEM_PIPELINES": {BadAsync: 1, Next: 2}}
    def parse(self, response):
        yield from super().parse(response)
        raise ValueError("late")

class Output:
    def process_spider_output(self, response, result):
        for number, thing in enumerate(result):
            if number == 4:
                raise ValueError("in a middleware")
            yield thing
    async def process_spider_output_async(self, response, result):
        number = 0
        async for thing in result:
            number += 1
            if number == 5:
                raise ValueError("in a middleware")
            yield thing

class Middleware(Base):
    name = "middleware"
    custom_settings = {"SPIDER_MIDDLEWARES": {Output: 100}}

class Recovers:
    def process_spider_exception(self, response, exception):
        return [{"recovered": type(exception).__name__}]

class Recovered(Plain):
    name = "recovered"
    custom_settings = {"SPIDER_MIDDLEWARES": {Recovers: 100}}
"""
# spider -> exceptions of callbacks, and of pipelines
CASES = {
    "plain": ({"ValueError": 1}, {}),
    "within": ({"KeyError": 1}, {}),
    "at_once": ({"TypeError": 1}, {}),
    "async": ({"ValueError": 1}, {}),
    "start": ({"ValueError": 1}, {}),
    "errback": ({"ValueError": 1}, {}),
    "refused": ({}, {}),
    "queued": ({"ValueError": 1}, {}),
    "closes": ({}, {}),
    "piped": ({}, {"Bad raised ValueError": 1, "Bad raised KeyError": 1}),
    "piped_async": ({}, {"BadAsync raised ValueError": 1, "BadAsync raised KeyError": 1}),
    "piped_and_raises": (
        {"ValueError": 1},
        {"BadAsync raised ValueError": 1, "BadAsync raised KeyError": 1},
    ),
    "middleware": ({"ValueError": 1}, {}),
    "recovered": ({}, {}),
}


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    root = write_project(
        tmp_path_factory.mktemp("parity"),
        "parity",
        settings=SETTINGS,
        spiders=SPIDERS,
        failing=FAILING,
    )
    out = tmp_path_factory.mktemp("scrapy")
    with beside_scrapy(root, out, [*NAMES, "signals", *CASES]) as beside:
        yield beside


@pytest.mark.parametrize("name", NAMES)
def test_items_are_those_of_scrapy(name: str, beside: Beside) -> None:
    ours = beside.ours(name)
    assert as_set(ours.items) == as_set(beside.theirs(name))
    assert ours.items, ours.ended


def test_signals_are_those_of_scrapy(beside: Beside, tmp_path: Path) -> None:
    ours = beside.ours("signals", out=str(tmp_path / "mine"))
    theirs = (beside.out / "signals.out").read_text()
    assert (tmp_path / "mine").read_text() == theirs, ours.ended


@pytest.mark.parametrize("name", CASES)
def test_what_was_yielded_before_an_exception_stays(name: str, beside: Beside) -> None:
    raised, failed = CASES[name]
    ours, stats = beside.ours(name), beside.stats(name)
    assert as_set(ours.items) == as_set(beside.theirs(name)), ours.ended
    expected = {f"spider_exceptions/{kind}": n for kind, n in raised.items()}
    for counted in (stats, ours.stats):
        found = {k: n for k, n in counted.items() if k.startswith("spider_exceptions/")}
        assert found.pop("spider_exceptions/count", 0) == sum(raised.values())
        assert found == expected
        assert counted.get("my/parsed") == stats.get("my/parsed")
    dropped = {k: n for k, n in ours.stats.items() if k.startswith("dropped/")}
    for reason, number in failed.items():
        assert dropped.pop(f"dropped/{reason}") == number
    assert sum(dropped.values()) == stats.get("item_dropped_count", 0)
    assert ours.closing == ("enough" if name == "closes" else "")
    said = [text.split()[1] for text in ours.ended.values() if text.startswith("error")]
    pages = {"refused": 1, "piped": 2, "piped_async": 2, "piped_and_raises": 2}
    assert len(said) == pages.get(name, sum(raised.values())), ours.ended
    assert {*said} == ({"callback"} if raised or name == "refused" else set()) | (
        {"pipeline"} if failed else set()
    )


def test_what_cannot_travel_or_is_late_is_said(tmp_path: Path) -> None:
    write_project(
        tmp_path,
        "told",
        settings="SPIDER_MODULES = ['told.spiders']\n",
        spiders="import scrapy\n"
        "from functools import partial\n"
        "from scrapy.signals import spider_idle\n"
        "class Told(scrapy.Spider):\n"
        "    name = 'told'\n"
        "    def parse(self, response):\n"
        "        yield scrapy.Request('http://a.example/', partial(self.parse, n=1))\n"
        "        yield scrapy.Request('http://a.example/', callback=partial(self.parse, 1))\n"
        "        yield scrapy.Request('http://a.example/', errback=partial(self.parse, n=1))\n"
        "        yield response.follow('/', lambda response: None)\n"
        "        self.crawler.signals.connect(self.parse, spider_idle)\n"
        "        self.crawler.signals.connect(self.parse, scrapy.signals.bytes_received)\n"
        "    def rows(self, response):\n"
        "        yield {}\n"
        "        return [{}]\n"
        "    def plain(self, response):\n"
        "        def inner():\n"
        "            yield 1\n"
        "        return [*inner()]\n",
    )
    registry = spiders_of(tmp_path)
    told = registry.get("told")
    assert issubclass(told, PortedSpider)
    verdict = verdict_on(told)
    assert sorted(one.split(":")[1] for one in verdict.cannot) == ["10", "8", "9"]
    lines = {one.split(":")[1]: one for one in verdict.but if "spiders.py" in one}
    assert {*lines} == {"11", "12", "13"}
    assert "rows yields: its return value is lost, as in Scrapy" in lines["13"]
    assert "spider_idle is never sent" in lines["11"]
    assert "bytes_received is sent when the response is complete" in lines["12"]
