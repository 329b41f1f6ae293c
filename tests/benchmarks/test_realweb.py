"""The comparison with wget on real sites."""

from __future__ import annotations

from crawlframe.code.registry import Registry
from crawlframe.spider import read_settings


def test_its_spider_asks_its_own_server_without_a_pause() -> None:
    spider = Registry.load("benchmarks.realweb.spiders").get("realweb")
    settings = read_settings(spider)
    assert (settings.delay, settings.page_limit, settings.robots) == (0, 0, False)
