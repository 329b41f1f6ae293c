"""Settings of one task, and add-ons, of a Scrapy project."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import scrapy

from crawlframe.errors import ArgumentError
from crawlframe.scrapy.project import spiders_of
from crawlframe.scrapy.settings import mapped
from crawlframe.scrapy.spider import PortedSpider
from crawlframe.spider.settings import SpiderSettings
from crawlframe.spider.spider import build, read_settings
from crawlframe.spider.task_settings import overridden
from tests.scrapy_projects.ported_spiders import Plain, of, write_project


class Attributes(Plain):
    """Its attributes give way to the task's settings."""

    name = "attributes"
    download_delay = 7
    download_timeout = 8
    download_maxsize = 9
    user_agent = "ours"
    max_concurrent_requests = 3
    handle_httpstatus_list = [404]
    custom_settings = {"RETRY_TIMES": 6, "DEPTH_LIMIT": 2}


CHOSEN: dict[str, tuple[Any, dict[str, Any]]] = {
    "delay": (2.5, {"DOWNLOAD_DELAY": 2.5, "AUTOTHROTTLE_ENABLED": False}),
    "concurrency": (2, {"CONCURRENT_REQUESTS_PER_DOMAIN": 2, "CONCURRENT_REQUESTS": 2}),
    "ip": ({"concurrency": 4}, {"CONCURRENT_REQUESTS_PER_IP": 4}),
    "timeout": (11.0, {"DOWNLOAD_TIMEOUT": 11.0}),
    "max_body": (1000, {"DOWNLOAD_MAXSIZE": 1000}),
    "retries": (0, {"RETRY_ENABLED": False, "RETRY_TIMES": 0}),
    "retry_statuses": ([500], {"RETRY_HTTP_CODES": [500]}),
    "handle_statuses": ([410], {"HTTPERROR_ALLOWED_CODES": [410]}),
    "robots": (False, {"ROBOTSTXT_OBEY": False}),
    "depth_limit": (5, {"DEPTH_LIMIT": 5}),
    "page_limit": (50, {"CLOSESPIDER_PAGECOUNT": 50}),
    "time_limit": (60.0, {"CLOSESPIDER_TIMEOUT": 60.0}),
    "max_redirects": (3, {"REDIRECT_MAX_TIMES": 3}),
    "cookies": (False, {"COOKIES_ENABLED": False}),
    "user_agent": ("theirs", {"USER_AGENT": "theirs"}),
    "url_length": (500, {"URLLENGTH_LIMIT": 500}),
}


@pytest.mark.filterwarnings("ignore::scrapy.exceptions.ScrapyDeprecationWarning")
@pytest.mark.parametrize("kind", [Plain, Attributes])
def test_settings_of_a_task_reach_the_crawler(kind: type[scrapy.Spider]) -> None:
    """Mapped back, they are the settings that the engine works with."""
    spider = of(kind, AUTOTHROTTLE_ENABLED=True, DOWNLOAD_DELAY=1)
    given = {name: value for name, (value, _) in CHOSEN.items()}
    made, _ = build(spider, {}, given)
    assert isinstance(made, PortedSpider)
    assert made._port is not None
    crawler = made._port.crawler
    for name, (_, expected) in CHOSEN.items():
        found = {key: crawler.settings.get(key) for key in expected}
        assert {k: [*v] if isinstance(v, tuple) else v for k, v in found.items()} == expected, name
        assert {crawler.settings.getpriority(key) for key in expected} == {40}, name
    settings = overridden(read_settings(spider), given)
    mapped_back = mapped(crawler.settings, kind).settings
    back = overridden(SpiderSettings(), {name: mapped_back[name] for name in CHOSEN})
    assert {n: getattr(back, n) for n in CHOSEN} == {n: getattr(settings, n) for n in CHOSEN}
    other, _ = build(spider, {})
    assert isinstance(other, PortedSpider)
    assert other._port is not None
    delay = other._port.crawler.settings.getfloat("DOWNLOAD_DELAY")
    assert delay == (7 if kind is Attributes else 1), "the next task has its own"


def test_a_rate_that_is_found_has_the_least_delay_of_the_task() -> None:
    made, _ = build(of(Plain, DOWNLOAD_DELAY=3), {}, {"delay": "auto", "min_delay": 0.5})
    settings = made._port.crawler.settings  # type: ignore[attr-defined]
    assert settings.getbool("AUTOTHROTTLE_ENABLED")
    assert settings.getfloat("DOWNLOAD_DELAY") == 0.5


def test_a_setting_that_does_not_fit_is_named() -> None:
    with pytest.raises(ArgumentError, match="delay must not be negative"):
        build(of(Plain), {}, {"delay": -1})


# -- add-ons --------------------------------------------------------------------------------------

ADDON = '''
from scrapy.exceptions import NotConfigured


class Stamp:
    def process_item(self, item):
        return {**item, "stamped": True}


class Header:
    async def process_request(self, request):
        request.headers["X-Addon"] = "yes"


class Polite:
    """Changes settings, and adds components."""

    @classmethod
    def from_crawler(cls, crawler):
        return cls()

    @classmethod
    def update_pre_crawler_settings(cls, settings):
        settings.set("SPIDER_MODULES", [__name__.rpartition(".")[0] + ".one"], "addon")

    def update_settings(self, settings):
        settings.set("DOWNLOAD_DELAY", 4, "addon")
        settings.set("RETRY_TIMES", 9, "addon")
        settings["ITEM_PIPELINES"].set(Stamp, 1, "addon")
        settings["DOWNLOADER_MIDDLEWARES"].set(Header, 1, "addon")


class Off:
    def __init__(self):
        raise NotConfigured("it has no key")
'''


def test_add_ons_change_settings_and_add_components(tmp_path: Path) -> None:
    """Also by classes that find spiders; the project's own settings go first."""
    package = f"project_{abs(hash(tmp_path))}"
    write_project(
        tmp_path,
        package,
        addon=ADDON,
        settings="RETRY_TIMES = 3\nROBOTSTXT_OBEY = True\n"
        f"ADDONS = {{'{package}.addon.Polite': 1, '{package}.addon.Off': 2}}\n",
        one="import scrapy\n\nclass One(scrapy.Spider):\n    name = 'one'\n"
        "    def parse(self, response):\n"
        "        yield {'sent': response.request.headers['X-Addon'].decode()}\n",
    )
    registry = spiders_of(tmp_path)
    assert registry.broken == {}
    spider = registry.spiders["one"]
    found = read_settings(spider)
    assert (found.delay, found.retries) == (4.0, 3)
    assert any(path.name == "addon.py" for path in registry.files), registry.files
    made, _ = build(spider, {})
    assert isinstance(made, PortedSpider)
    port = made._port
    assert port is not None
    assert port.crawler.settings.getfloat("DOWNLOAD_DELAY") == 4
    assert [type(one).__name__ for one in port.items.components] == ["Stamp"]
    assert len(port.downloads._requests) == 1
