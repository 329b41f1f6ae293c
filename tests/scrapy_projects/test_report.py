"""Reports on the source of a Scrapy project about its spiders."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from crawlframe.code.source import SourceFinder
from crawlframe.scrapy.project import spiders_of
from crawlframe.scrapy.report import verdict_on
from crawlframe.scrapy.spider import PortedSpider
from crawlframe.spider.spider import describe, read_settings
from tests.scrapy_projects.ported_spiders import Plain, of, written


def test_arguments_are_the_parameters_and_what_is_read(tmp_path: Path) -> None:
    spider = written(
        tmp_path,
        """
        class One(scrapy.Spider):
            name = "one"
            known = 1
            def __init__(self, city, days=3, *args, **kwargs):
                super().__init__(*args, **kwargs)
                self.city = city
                self.colour = kwargs.get("colour")
            def parse(self, response):
                self.logger.info(self.known, self.crawler, self.settings, self.region)
                return getattr(self, "limit", None), getattr(self, "Country Code", None)
            def row(self, **kwargs):
                return kwargs["Country Code"], kwargs["place"]
        """,
    )
    arguments = describe(spider).arguments
    assert [*arguments["properties"]] == ["city", "days", "colour", "limit", "region", "known"]
    assert arguments["required"] == ["city"]
    made = spider._make({"city": "a", "limit": "5", "known": "2"})
    assert isinstance(made, PortedSpider)
    inside = made._opened_port().spider
    assert (inside.city, inside.limit, inside.known) == ("a", "5", "2")


def test_state_on_self_is_found_with_its_line(tmp_path: Path) -> None:
    spider = written(
        tmp_path,
        """
        class One(scrapy.Spider):
            name = "one"
            def __init__(self):
                self.prepare()
            def prepare(self):
                self.made = []
            def parse(self, response):
                self.made.append(1)
                self.local = response.url
                yield {"l": self.local, "m": self.made}
                self.total = 5
            def parse_more(self, response):
                yield {"t": self.total}
            def closed(self, reason):
                self.reason = reason
        """,
    )
    file = spider.scrapy_source.nodes[0][0]
    assert spider.scrapy_source.state == [
        f"{file}:10: self.made is changed in parse and read in parse (line 10)",
        f"{file}:13: self.total is changed in parse and read in parse_more (line 15)",
    ]
    assert f"{file}:10: self.made is changed in parse" in str(verdict_on(spider))


def test_what_cannot_work_is_said_with_its_line(tmp_path: Path) -> None:
    spider = written(
        tmp_path,
        """
        from scrapy import signals
        class One(scrapy.Spider):
            name = "one"
            @classmethod
            def from_crawler(cls, crawler, *args, **kwargs):
                spider = super().from_crawler(crawler, *args, **kwargs)
                crawler.signals.connect(spider.idle, signal=signals.spider_idle)
                return spider
            def idle(self):
                self.crawler.engine.schedule(scrapy.Request("http://a.example/"), self)
            def parse(self, response):
                yield scrapy.Request("http://b.example/", callback=lambda r: None)
                yield scrapy.Request("http://c.example/", meta={"playwright": True})
        """,
    )
    said = str(verdict_on(spider))
    assert said.startswith("one: cannot, because ")
    for line, words in (
        (12, "there is no crawler.engine.schedule"),
        (14, "a callback must be a method"),
        (15, "meta['playwright']"),
        (9, "spider_idle is never sent"),
    ):
        assert f"one.py:{line}: {words}" in said


class Slots:
    """A pipeline that looks into Scrapy's engine."""

    def process_item(self, item: Any, spider: Any) -> Any:
        spider.crawler.engine.slot.scheduler.flush()
        return item


def test_what_components_need_is_said_too() -> None:
    made = of(Plain, ITEM_PIPELINES={Slots: 1})
    (reason,) = verdict_on(made).cannot
    assert reason.startswith(f"{__file__}:")
    assert reason.endswith("there is no crawler.engine.slot")


class Hastens:
    """A middleware that changes the delay of a host, if Scrapy's downloader knows it."""

    def __init__(self, crawler: Any) -> None:
        self.crawler = crawler
        self.found: list[Any] = []

    @classmethod
    def from_crawler(cls, crawler: Any) -> Any:
        return cls(crawler)

    def process_request(self, request: Any) -> None:
        self.found.append(self.crawler.engine.downloader.slots.get("a.example"))


def test_the_slots_of_the_downloader_are_empty_and_that_is_said() -> None:
    made = of(Plain, DOWNLOADER_MIDDLEWARES={Hastens: 1})
    verdict = verdict_on(made)
    assert verdict.cannot == []
    assert any("crawler.engine.downloader.slots is empty" in one for one in verdict.but)
    spider = made._make({})
    assert isinstance(spider, PortedSpider)
    engine: Any = spider._opened_port().crawler.engine
    assert dict(engine.downloader.slots) == {}
    with pytest.raises(AttributeError, match=r"downloader\.slots"):
        _ = engine.slot


class Renders:
    """An add-on, which changes settings when a crawler is made."""

    def update_settings(self, settings: Any) -> None:
        settings.set("DOWNLOAD_HANDLERS", {"https": "a.Handler"}, "addon")
        settings.set("DOWNLOAD_DELAY", 4, "addon")


def test_what_add_ons_set_is_seen() -> None:
    made = of(Plain, ADDONS={Renders: 1})
    (reason,) = verdict_on(made).cannot
    assert reason.startswith("DOWNLOAD_HANDLERS['https']")
    assert read_settings(made).delay == 4.0


def test_a_directory_without_a_project_says_what_to_do(tmp_path: Path) -> None:
    (problem,) = spiders_of(tmp_path).broken.values()
    assert "CRAWLFRAME_SCRAPY names the directory of a Scrapy project" in problem


def test_the_modules_of_a_project_are_compiled_from_source(tmp_path: Path) -> None:
    spider = written(tmp_path, "class One(scrapy.Spider):\n    name = 'one'\n")
    loaded = SourceFinder.install().loaded
    (file,) = (
        path for path in loaded if path.startswith(f"{tmp_path}/") and path.endswith("one.py")
    )
    assert file == spider.scrapy_source.nodes[0][0]


def test_nothing_installs_a_reactor() -> None:
    assert isinstance(sys.modules["scrapy"], ModuleType)
    assert "twisted.internet.reactor" not in sys.modules
