"""Recipes of the database in a worker: which one runs."""

from __future__ import annotations

import pytest

from crawlframe.code.registry import Registry
from crawlframe.errors import SpiderError, UnknownSpider
from crawlframe.node.worker.task.open_task import CrawlMaker
from crawlframe.run.ledger import StoredRecipe, TaskSpec
from crawlframe.spider.spider import Spider

TEXT = '{"name": "books", "start_urls": ["https://a.example/%d"]}'


@pytest.fixture
def registry() -> Registry:
    class Written(Spider):
        name = "written"

    registry = Registry.__new__(Registry)
    registry.spiders, registry.broken = {"written": Written}, {}
    return registry


def spec(number: int, name: str = "books", text: str = "") -> TaskSpec:
    return TaskSpec(1, name, {}, 0, recipe=StoredRecipe(number, text or TEXT % number))


def test_a_worker_makes_the_spider_of_a_recipe(registry: Registry) -> None:
    maker = CrawlMaker(registry, 1.0)
    one, again, two = (maker.make(spec(number)).spider for number in (1, 1, 2))
    assert type(one) is type(again)
    assert [next(one.start()).url, next(two.start()).url] == [
        "https://a.example/1",
        "https://a.example/2",
    ]


def test_code_goes_before_recipes(registry: Registry) -> None:
    maker = CrawlMaker(registry, 1.0)
    assert type(maker.make(spec(1, "written")).spider) is registry.spiders["written"]
    with pytest.raises(UnknownSpider):
        maker.make(TaskSpec(1, "books", {}, 0))


def test_a_recipe_of_a_newer_release_is_refused(registry: Registry) -> None:
    text = '{"name": "books", "start_urls": ["https://a.example/"], "magic": 1}'
    with pytest.raises(SpiderError, match="there is no key 'magic' here"):
        CrawlMaker(registry, 1.0).make(spec(1, text=text))
