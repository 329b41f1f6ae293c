"""The effects of an exception, by Scrapy and by our engine: the same items, and the same stats."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crawlframe.code.registry import Registry
from crawlframe.scrapy.project import spiders_of
from tests.scrapy_projects.ours import crawl
from tests.scrapy_projects.site import Site

pytestmark = [
    pytest.mark.process,
    pytest.mark.filterwarnings("ignore::scrapy.exceptions.ScrapyDeprecationWarning"),
]
HERE = Path(__file__).parent
SETTINGS = """
SPIDER_MODULES = ["failing.spiders"]
ROBOTSTXT_OBEY = False
DOWNLOAD_DELAY = 0
RETRY_ENABLED = False
TELNETCONSOLE_ENABLED = False
"""
SPIDERS = """
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
def site() -> Iterator[Site]:
    with Site() as site:
        yield site


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("failing")
    (root / "failing").mkdir()
    (root / "scrapy.cfg").write_text("[settings]\ndefault = failing.settings\n")
    for name, text in {"__init__": "", "settings": SETTINGS, "spiders": SPIDERS}.items():
        (root / "failing" / f"{name}.py").write_text(text)
    return root


@pytest.fixture(scope="module")
def registry(project: Path) -> Registry:
    registry = spiders_of(project)
    assert registry.broken == {}
    return registry


@pytest.fixture(scope="module")
def by_scrapy(project: Path, site: Site, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("scrapy")
    subprocess.run(
        [sys.executable, HERE / "real.py", site.url, out, *CASES], cwd=project, check=True
    )
    return out


def as_set(items: list[Any]) -> list[str]:
    return sorted(json.dumps(item, sort_keys=True) for item in items)


@pytest.mark.parametrize("name", CASES)
def test_what_was_yielded_stays(name: str, site: Site, by_scrapy: Path, registry: Registry) -> None:
    raised, failed = CASES[name]
    theirs = [json.loads(line) for line in (by_scrapy / f"{name}.jsonl").read_text().splitlines()]
    stats = json.loads((by_scrapy / f"{name}.stats").read_text())
    ours = crawl(registry, name, site=site.url)
    assert as_set(ours.items) == as_set(theirs), ours.ended
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
