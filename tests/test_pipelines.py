"""Pipelines that a spider must not have are reported when it is loaded."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from crawlframe import Response, Spider
from crawlframe.base.stats import MAX_NAME, MAX_REASONS, OTHER
from crawlframe.errors import SpiderError
from crawlframe.items.pipelines import Pipelines, misuse_of
from crawlframe.spider.spider import describe


def plain(item: Any, response: Response | None) -> Any:
    return item


class Method:
    def process_item(self, item: Any, response: Response | None) -> Any:
        return item


class Static:
    @staticmethod
    def process_item(item: Any, response: Response | None) -> Any:
        return item


class Of(Method):
    def __init__(self, limit: int) -> None:
        self.limit = limit


class Scrapys:
    def process_item(self, item: Any, spider: Any) -> Any:
        return item


class Closing(Method):
    def close(self) -> None: ...


class Opening(Method):
    def open_spider(self, spider: Any) -> None: ...


class Crawling(Method):
    @classmethod
    def from_crawler(cls, crawler: Any) -> Any: ...


class One:
    def process_item(self, item: Any) -> Any:
        return item


@pytest.mark.parametrize(
    "declared",
    [[], (), [plain], [Method], [Static], [Of(3)], [Method(), plain], [partial(plain)]],
)
def test_what_may_be_declared(declared: Any) -> None:
    assert misuse_of(declared) == ""
    Pipelines(declared)


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        (plain, "pipelines must be a list"),
        (["shop.clean"], "'shop.clean': it is not a function and has no method process_item"),
        ([object], "object: it is not a function and has no method process_item"),
        ([None], "NoneType: it is not a function"),
        ([Of], "Of: it is made without arguments, and needs limit"),
        ([Scrapys], "Scrapys: process_item(item, spider) is Scrapy's; here it is process_item"),
        ([Scrapys()], "Scrapys: process_item(item, spider) is Scrapy's; here it is process_item"),
        ([Closing], "Closing: close: nothing would call it"),
        ([Opening], "Opening: open_spider: call it open(self, spider)"),
        ([Crawling()], "Crawling: from_crawler: pipelines are made without arguments"),
        ([One], "One: it must take two arguments: process_item(item, response)"),
        ([lambda item: item], "it must take two arguments"),
    ],
)
def test_what_cannot_work_is_named(declared: Any, words: str) -> None:
    spider = type("Shop", (Spider,), {"name": "shop", "pipelines": declared})
    with pytest.raises(SpiderError) as error:
        describe(spider)
    assert words in str(error.value)


@pytest.mark.parametrize("name", ["log", "stats"])
def test_an_argument_does_not_hide_what_a_spider_has(name: str) -> None:
    spider = type("Shop", (Spider,), {"name": "shop", "__annotations__": {name: "int"}})
    with pytest.raises(SpiderError, match=f"{name} is a name of Spider's own"):
        describe(spider)


def test_reasons_are_counted_under_short_names_and_not_too_many() -> None:
    pipelines = Pipelines([plain])
    assert pipelines.counter_of(" too\n old\0 ") == "dropped/too old"
    assert pipelines.counter_of("") == "dropped/no reason given"
    assert len(pipelines.counter_of("x" * 500)) == MAX_NAME
    names = {pipelines.counter_of(f"price {n}") for n in range(1000)}
    assert OTHER in names
    assert len(names) < MAX_REASONS
    assert pipelines.counter_of("price 1") == "dropped/price 1"
