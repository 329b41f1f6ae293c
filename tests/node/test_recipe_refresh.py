"""Recipes of the database in a worker: which one runs, and how a change is noticed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from crawlframe.code.registry import Registry
from crawlframe.errors import SpiderError, UnknownSpider
from crawlframe.node.worker.task.open_task import CrawlMaker
from crawlframe.node.worker.task.recipe_refresh import RecipeRefresh
from crawlframe.run.ledger import LedgerAway, StoredRecipe, TaskSpec
from crawlframe.spider.spider import Spider

TEXT = '{"name": "books", "start_urls": ["https://a.example/%d"]}'


class Ledger:
    def __init__(self) -> None:
        self.found: dict[str, int] | Exception = {}
        self.asked: list[set[str]] = []

    def recipe_numbers(self, names: set[str]) -> dict[str, int]:
        self.asked.append(names)
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


class Refreshed:
    """A refresh whose jobs run when ``work`` is called."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.tasks: dict[int, tuple[str, int]] = {}
        self.forgotten: list[int] = []
        self.jobs: list[Callable[[], None]] = []
        ledger: Any = self.ledger
        self.refresh = RecipeRefresh(
            self.tasks, ledger, self.forgotten.append, self.jobs.append, lambda job: job()
        )

    def work(self) -> None:
        self.refresh.tick()
        while self.jobs:
            self.jobs.pop()()


def test_nothing_is_asked_without_recipes() -> None:
    refreshed = Refreshed()
    refreshed.work()
    assert refreshed.ledger.asked == []


def test_tasks_of_a_changed_recipe_are_opened_again() -> None:
    refreshed = Refreshed()
    refreshed.tasks |= {1: ("books", 1), 2: ("news", 4), 3: ("books", 2)}
    refreshed.ledger.found = {"books": 2, "news": 4}
    refreshed.work()
    assert refreshed.ledger.asked == [{"books", "news"}]
    assert refreshed.forgotten == [1]
    refreshed.work()  # it has ended meanwhile: nothing opens it again
    assert refreshed.forgotten == [1]


def test_a_task_of_a_deleted_recipe_keeps_its_spider() -> None:
    refreshed = Refreshed()
    refreshed.tasks[1] = ("books", 1)
    refreshed.work()
    assert refreshed.forgotten == []


def test_only_one_question_at_a_time_and_again_after_an_error() -> None:
    refreshed = Refreshed()
    refreshed.tasks[1] = ("books", 1)
    refreshed.ledger.found = LedgerAway("away")
    refreshed.refresh.tick()
    refreshed.refresh.tick()
    assert len(refreshed.jobs) == 1
    refreshed.work()
    refreshed.ledger.found = {"books": 2}
    refreshed.work()
    assert refreshed.forgotten == [1]


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
