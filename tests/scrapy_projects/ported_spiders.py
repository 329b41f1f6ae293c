"""Scrapy spiders for tests that need no server, and how they are ported."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import scrapy
from scrapy.settings import Settings
from scrapy.spidermiddlewares.httperror import HttpError
from twisted.internet.error import DNSLookupError

from crawlframe.scrapy.project import spiders_of
from crawlframe.scrapy.requests import Translator
from crawlframe.scrapy.spider import PortedSpider, ported

URL = "https://www.example.com/"


def settings(**values: Any) -> Settings:
    made = Settings()
    made.setdict({"ROBOTSTXT_OBEY": True, **values}, priority="project")
    return made


class Plain(scrapy.Spider):
    """A plain one."""

    name = "plain"
    start_urls = [URL]

    def parse(self, response: Any, **more: Any) -> Any:
        yield {"url": response.url, "kind": type(response).__name__, **more}

    def parse_other(self, response: Any) -> Any:
        yield {"meta": response.meta["x"]}

    def follow(self, response: Any) -> Any:
        yield {"follow": True}

    def failed(self, failure: Any) -> Any:
        http = failure.check(HttpError)
        yield {"http": bool(http), "dns": bool(failure.check(DNSLookupError))}


def of(kind: type[scrapy.Spider], **values: Any) -> type[PortedSpider]:
    return ported(kind, settings(**values))


def write_project(root: Path, package: str, **modules: str) -> Path:
    """Writes a project of these modules into ``root``, and returns that."""
    (root / package).mkdir()
    (root / "scrapy.cfg").write_text(f"[settings]\ndefault = {package}.settings\n")
    for name, text in {"__init__": "", **modules}.items():
        (root / package / f"{name}.py").write_text(text)
    return root


def written(tmp_path: Path, source: str, config: str = "") -> type[PortedSpider]:
    """The spider of a module in a project of its own."""
    package = f"project_{abs(hash(tmp_path))}"
    config = f"SPIDER_MODULES = ['{package}.one']\nROBOTSTXT_OBEY = True\n{config}"
    source = "import scrapy\n" + textwrap.dedent(source)
    write_project(tmp_path, package, settings=config, one=source)
    registry = spiders_of(tmp_path)
    assert registry.broken == {}
    (spider,) = registry.spiders.values()
    assert issubclass(spider, PortedSpider)
    return spider


def translator(kind: type[scrapy.Spider] = Plain, **values: Any) -> tuple[Translator, Any]:
    spider = kind()
    return Translator(spider, settings(**values), frozenset(dir(PortedSpider)) - {"parse"}), spider
