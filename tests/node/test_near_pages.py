"""Pages that are nearly the same as others, on their way through a worker, and the store."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import pytest

from crawlframe import Request, Response, Spider
from crawlframe.errors import SpiderError
from crawlframe.frontier import Frontier
from crawlframe.frontier.near import Like, NearPage
from crawlframe.near.fingerprint import NearStore
from crawlframe.node.worker.commit.participants import NearPageEnds
from crawlframe.node.worker.pages.near_pages import NearQuestion, NearSource
from crawlframe.run.ledger import Recorded
from crawlframe.run.outcome import Outcome, Verdict
from crawlframe.spider.spider import describe, read_settings
from crawlframe.spider.task_settings import overridden
from tests.frontier.bench import Bench
from tests.near.texts import text
from tests.node.runner import HTML, Ready, Tasks, items

WORDS = b" ".join(text(1, 200))


class Shop(Spider):
    name = "shop"
    settings: ClassVar[dict[str, Any]] = {"near_duplicates": "mark"}

    def parse(self, response: Response) -> Any:
        yield {"url": response.url, "like": str(response.near_duplicate)}
        yield Request("http://shop.example/next")


class Dropping(Shop):
    settings: ClassVar[dict[str, Any]] = {"near_duplicates": "drop"}


class Store(NearSource):
    """Real, in Redis; without database."""

    def __init__(self, frontier: Frontier) -> None:
        self._frontier = frontier
        self.asked: list[NearPage] = []

    async def like(self, question: NearQuestion) -> Like | None:
        self.asked.append(question.page)
        return self._frontier.near.ask(question.store, [question.page])[0]


@pytest.fixture
def store(bench: Bench) -> Store:
    bench.open(task=1)
    return Store(bench.frontier)


def run(spider: type[Spider], store: Store, *urls: str, body: bytes = WORDS) -> list[Outcome]:
    site = Ready(body=b"<script>" + WORDS + b"</script><p>" + body, headers=HTML)

    async def all_() -> list[Outcome]:
        tasks = Tasks(spider, site, near=store)
        return [await tasks.run(Request(f"http://shop.example{url}")) for url in urls]

    return asyncio.run(all_())


def counts(outcome: Outcome) -> dict[str, int]:
    return outcome.results.stats.counters if outcome.results.stats else {}


def test_a_duplicate_is_marked(store: Store) -> None:
    first, second = run(Shop, store, "/a", "/b")
    assert items(first)[0]["like"] == "None"
    assert first.detail == ""
    assert counts(first) == {"near/compared": 1}
    words = "nearly the same text as http://shop.example/a (100% in common)"
    assert items(second)[0]["like"] == second.detail == words
    assert len(second.results.follow_ups) == 1
    assert counts(second) == {"near/compared": 1, "near/marked": 1}
    assert second.verdict is Verdict.DONE


def test_a_duplicate_is_not_parsed(store: Store) -> None:
    first, second = run(Dropping, store, "/a", "/b")
    assert len(first.results.items) == len(first.results.follow_ups) == 1
    assert (second.results.items, second.results.follow_ups) == ([], [])
    assert second.detail.startswith("nearly the same text as http://shop.example/a")
    assert counts(second) == {"near/compared": 1, "near/dropped": 1}


def test_a_page_that_is_fetched_again_is_the_first_one_still(store: Store) -> None:
    """After a kill, and (settled) after its row was written."""
    one, again = run(Dropping, store, "/a", "/a")
    assert len(again.results.items) == 1
    NearPageEnds(store._frontier).after([one], {one.rid: Recorded(False, [], 0)})
    assert len(run(Dropping, store, "/a")[0].results.items) == 1
    assert run(Dropping, store, "/b")[0].results.items == []


def test_a_page_whose_callback_failed_is_not_remembered(store: Store) -> None:
    class Failing(Dropping):
        def parse(self, response: Response) -> Any:
            raise ValueError

    (failed,) = run(Failing, store, "/a")
    assert failed.verdict is Verdict.ERROR
    NearPageEnds(store._frontier).after([failed], {failed.rid: Recorded(False, [], 0)})
    assert len(run(Dropping, store, "/b")[0].results.items) == 1


def test_a_spider_can_choose_the_compared_text(store: Store) -> None:
    class Own(Dropping):
        def near_text(self, response: Response) -> str:
            return " ".join(f"{response.url[-1]}{n}" for n in range(100))

    outcomes = run(Own, store, "/a", "/b", "/other/a", body=b"short")
    assert [len(outcome.results.items) for outcome in outcomes] == [1, 1, 0]


def test_a_text_that_cannot_be_had_is_an_error(store: Store) -> None:
    class Raising(Dropping):
        def near_text(self, response: Response) -> str:
            raise ValueError("no text")

    (outcome,) = run(Raising, store, "/a")
    assert (outcome.verdict, outcome.reason) == (Verdict.ERROR, "callback")
    assert "ValueError: no text" in outcome.detail
    assert "near_text" in outcome.detail


def test_short_pages_and_other_kinds_are_not_compared(store: Store) -> None:
    first, second = run(Dropping, store, "/a", "/b", body=b"short")
    assert len(second.results.items) == 1
    assert counts(first) == counts(second) == {"near/too_short": 1}
    assert store.asked == []


def test_nothing_is_compared_without_the_setting(store: Store) -> None:
    class Plain(Shop):
        settings: ClassVar[dict[str, Any]] = {"near_duplicates": "off"}

    assert counts(run(Plain, store, "/a", "/a")[1]) == {}
    assert store.asked == []


@pytest.mark.parametrize(
    ("within", "other", "found"),
    [("task", "shop", False), ("spider", "shop", True), ("spider", "b", False), ("x", "b", True)],
)
def test_within_what_pages_are_compared(
    store: Store, bench: Bench, within: str, other: str, found: bool
) -> None:
    """The other page is of another task, of the same spider or another."""

    class One(Dropping):
        settings: ClassVar[dict[str, Any]] = {"near_duplicates": {"within": within}}

    class Other(One):
        name = other

    bench.open(task=2)
    run(One, store, "/a")
    site = Ready(body=WORDS, headers=HTML)

    async def in_task_2(url: str) -> Outcome:
        return await Tasks(Other, site, near=store, task=2).run(Request(url))

    outcome = asyncio.run(in_task_2("http://shop.example/b"))
    assert (outcome.results.items == []) is found
    if found:  # that page again is no duplicate, whatever its task
        assert len(asyncio.run(in_task_2("http://shop.example/a")).results.items) == 1
    assert outcome.fetch.near is not None
    name = {"task": NearStore(2).key, "spider": f"nspider:{other}"}.get(within, "nname:x")
    assert outcome.fetch.near.store.key == name


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"near_duplicates": "remove"}, "near_duplicates.action must be one of off, mark, drop"),
        ({"near_duplicates": {"within": "My Name"}}, "within is 'My Name'"),
        (
            {"near_duplicates": {"limit": 10}},
            "near_duplicates.limit must be a whole number, at least 1,000 and at most 16,000,000",
        ),
        ({"near_duplicates": {"likeness": 0.3}}, "must be a number, at least 0.5 and at most 1"),
        ({"near_duplicates": {"like": 0.3}}, "did you mean 'near_duplicates.likeness'?"),
        ({"near_duplicates": "drop", "render": "auto"}, "does not fit with render"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(SpiderError, match="shop") as failure:
        read_settings(type("Wrong", (Spider,), {"name": "shop", "settings": settings}))
    assert words in str(failure.value)


def test_near_text_must_be_a_plain_method() -> None:
    class Wrong(Shop):
        async def near_text(self, response: Response) -> str:  # type: ignore[override]
            return ""

    with pytest.raises(SpiderError, match="near_text is called with each response"):
        describe(Wrong)


def test_a_task_can_turn_it_off() -> None:
    class Own(Shop):
        settings: ClassVar[dict[str, Any]] = {"near_duplicates": {"within": "books", "limit": 2000}}

    own = read_settings(Own)
    assert own.near_duplicates.action == "mark"
    assert overridden(own, {"near_duplicates": "off"}).near_duplicates.action == "off"
    assert overridden(own, {"near_duplicates": {"likeness": 0.8}}).near_duplicates.limit == 2000
