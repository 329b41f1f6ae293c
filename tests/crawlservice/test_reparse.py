"""Kept pages parsed again: items replaced, errors repaired, differences told, nothing else
changed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import OperationalError, connection
from django.utils import timezone

from crawlframe import CloseTask, Request, Spider, Upsert
from crawlframe.base.expect import Expect
from crawlframe.base.stats import RUNNING
from crawlframe.errors import ArgumentError, SpiderError
from crawlframe.frontier import Counts, Frontier
from crawlframe.pages.reparse import Reparse, page_admission
from crawlframe.request.request import unpack_admissions
from crawlframe.response.response import Response
from crawlframe.run.ledger import LedgerAway
from crawlframe.run.outcome import Outcome
from crawlframe.spider.spider import describe, read_settings
from crawlservice.ledger.audit import audit
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import (
    Item,
    KeptPage,
    Page,
    PageBody,
    ParsedPage,
    Profile,
    ReplacedItem,
    Task,
)
from crawlservice.monitoring.ttl_cache import ttl_cache
from crawlservice.reparse import changes as changes_module
from crawlservice.reparse.changes import polled_changes
from crawlservice.reparse.submission import in_words, reparse_of
from crawlservice.tasks.removal import remove
from crawlservice.tasks.retry import retry
from crawlservice.tasks.submit import WrongState, submit
from tests.crawlservice.reparsing import Crawling
from tests.crawlservice.test_model_items import Agent, House, Shed

HOUSES = 6


class Houses(Spider):
    """The parser knows the pages as they were."""

    name = "houses"
    settings = {"keep": "all", "robots": False}
    allowed_domains = ["shop.example"]

    def start(self) -> Any:
        yield Request("http://shop.example/")

    def parse(self, response: Response) -> Any:
        for link in response.links():
            yield Request(link, "house", errback="gone")

    def house(self, response: Response) -> Any:
        yield {"url": response.url, "price": int(response.css(".price::text").get() or "")}

    def gone(self, error: Any) -> Any:
        yield {"url": error.request.url, "gone": True}


class Mended(Houses):
    """The parser after the site has changed."""

    name = "houses"

    def house(self, response: Response) -> Any:
        price = response.css(".price::text").get() or response.css(".cost::text").get()
        yield {"url": response.url, "price": int(price or "")}


def site() -> dict[str, tuple[int, bytes]]:
    """Six houses: two have the new markup, and one is gone."""
    links = "".join(f'<a href="/{n}">{n}</a>' for n in range(HOUSES))
    pages = {f"/{n}": (200, b'<p class="price">%d' % n) for n in range(HOUSES)}
    pages |= {f"/{n}": (200, b'<p class="cost">%d' % n) for n in (1, 4)}
    return pages | {"/": (200, links.encode()), "/5": (404, b"no")}


@pytest.fixture(autouse=True)
def in_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")


@pytest.fixture
def crawling(service: Frontier) -> Crawling:
    return Crawling(service, Houses, site())


def mended(crawling: Crawling, spider: type[Spider] = Mended) -> None:
    crawling.spider, crawling.version = spider, "second"


def items(task: Task) -> list[Any]:
    return sorted(Item.objects.filter(task=task).values_list("data", flat=True), key=str)


def rows(task: Task) -> dict[str, list[Any]]:
    columns = ("state", "reason", "items", "version")
    return {url: row for url, *row in Page.objects.filter(task=task).values_list("url", *columns)}


def numbers(task: Task) -> tuple[int, ...]:
    task.refresh_from_db()
    return task.na, task.nf, task.ne, task.items


def told(task: Task) -> list[dict[str, Any]]:
    """The findings of a parse, without fields of that task alone."""
    own = {"id", "rid", "task_id", "created_at", "version", "old_version"}
    found: Any = ParsedPage.objects.filter(task=task).order_by("url").values()
    return [{name: row[name] for name in row if name not in own} for row in found]


def everything(*but: Task) -> list[Any]:
    """All data that a dry run must not touch."""
    others = [task.pk for task in but]
    return [
        [*Page.objects.exclude(task__in=others).order_by("pk").values()],
        [*Item.objects.order_by("pk").values()],
        [
            *Task.objects.exclude(pk__in=others)
            .order_by("pk")
            .values("na", "nf", "items", "outcome")
        ],
        [*KeptPage.objects.order_by("pk").values("rid", "reason")],
        [*ReplacedItem.objects.values()],
    ]


def test_a_fixed_parser_brings_what_the_first_run_lacked_and_nothing_else_changes(
    crawling: Crawling,
) -> None:
    first = crawling.crawl()
    assert (first.outcome, numbers(first)) == ("finished_with_errors", (8, 5, 3, 4))
    before, kept = rows(first), [*Item.objects.values("pk", "created_at", "data", "version")]
    asked = [*crawling.web.asked]
    mended(crawling)
    unchanged = everything()
    dry = crawling.parse(first, dry_run=True)
    assert everything(dry) == unchanged
    second = crawling.parse(first)
    assert crawling.web.asked == asked  # no network
    assert told(dry) == told(second)
    assert {row["url"]: (row["added"], row["repaired"]) for row in told(second)} == {
        "http://shop.example/1": (1, True),
        "http://shop.example/4": (1, True),
    }
    assert {data["url"][-1]: data.get("price") for data in items(first)} == {
        **{str(n): n for n in range(5)}, "5": None,
    }  # fmt: skip
    after = rows(first)
    changed = {"http://shop.example/1", "http://shop.example/4"}
    assert {url: after[url] for url in changed} == {
        url: ["done", "", 1, "second"] for url in changed
    }
    assert {url: row for url, row in after.items() if url not in changed} == {
        url: row for url, row in before.items() if url not in changed
    }
    assert [
        *Item.objects.filter(version="first").values("pk", "created_at", "data", "version")
    ] == (kept)
    first.refresh_from_db()
    assert (numbers(first), first.outcome) == ((8, 7, 1, 6), "finished_with_errors")
    assert first.reason == "1 of 7 pages ended in error, all http_404"
    assert [(task.outcome, numbers(task)) for task in (dry, second)] == [
        ("finished", (8, 8, 0, 0))
    ] * 2
    assert [audit(task) for task in (first, dry, second)] == [[], [], []]
    assert not ReplacedItem.objects.exists()  # nothing was there before
    repaired = Page.objects.get(url="http://shop.example/1", task=first)
    assert (repaired.error_group, repaired.request, repaired.exchange, repaired.detail) == (
        None, None, None, "",
    )  # fmt: skip
    assert KeptPage.objects.get(rid=repaired.rid).reason == ""
    again = crawling.parse(first)  # correct items are left alone
    assert not told(again)


class Richer(Mended):
    name = "houses"

    def house(self, response: Response) -> Any:
        for item in super().house(response):
            if item["price"] != 2:
                yield item | {"rooms": 2 * item["price"]}


def test_old_items_are_kept_with_their_version_and_time(crawling: Crawling) -> None:
    first = crawling.crawl()
    old = {row["data"]["url"]: row for row in Item.objects.values()}
    mended(crawling, Richer)
    second = crawling.parse(first)
    assert {data["url"][-1]: data.get("rooms") for data in items(first)} == {
        "0": 0, "1": 2, "3": 6, "4": 8, "5": None,
    }  # fmt: skip
    replaced = [*ReplacedItem.objects.order_by("rid")]
    assert {one.data["url"][-1] for one in replaced} == {"0", "2", "3"}
    for one in replaced:
        row = old[one.data["url"]]
        assert (one.version, one.created_at, one.ordinal, one.rid, one.task_id) == (
            "first", row["created_at"], row["ordinal"], row["rid"], first.pk,
        )  # fmt: skip
        assert one.replaced_by == second.pk
        assert one.replaced_at >= one.created_at
    # The new items have new numbers, so a continuous export brings them.
    last = max(row["id"] for row in old.values())
    assert all(
        pk > last for pk in Item.objects.filter(version="second").values_list("pk", flat=True)
    )
    by_url = {row["url"][-1]: row for row in told(second)}
    assert (by_url["0"]["changed"], by_url["0"]["fields"]) == (1, {"rooms": 1})
    assert by_url["0"]["examples"] == [
        {"kind": "changed", "key": 0, "fields": {"rooms": [None, 0]}}
    ]
    assert (by_url["2"]["removed"], by_url["2"]["after"]) == (1, 0)
    assert numbers(first) == (8, 7, 1, 5)
    assert audit(first) == []


def test_the_outcome_and_the_quality_are_judged_anew(crawling: Crawling) -> None:
    crawling.web.site |= {f"/{n}": (200, b'<p class="cost">%d' % n) for n in range(HOUSES)}
    first = crawling.crawl()
    assert first.outcome == "failed"
    mended(crawling)
    crawling.parse(first, dry_run=True)
    first.refresh_from_db()
    assert first.outcome == "failed"
    crawling.parse(first)
    first.refresh_from_db()
    assert (first.outcome, first.reason, first.items) == ("finished", "", HOUSES)
    assert [*Profile.objects.values_list("task", "judged", "last_item")] == [(first.pk, False, 0)]


def test_what_is_parsed_can_be_chosen(crawling: Crawling) -> None:
    first = crawling.crawl()
    mended(crawling)

    def parsed(**wanted: Any) -> set[str]:
        crawling.parse(first, dry_run=True, **wanted)
        return {o.url.removeprefix("http://shop.example") for o in crawling.outcomes} - {"pages:"}

    assert parsed(reason="callback") == {"/1", "/4"}
    assert parsed(reason="http_404") == {"/5"}
    assert parsed(callback="parse") == {"/"}
    old = timezone.now() - timedelta(days=3)
    KeptPage.objects.exclude(url__endswith="/2").update(fetched_at=old)
    assert parsed(since=timezone.now() - timedelta(days=1)) == {"/2"}
    with pytest.raises(ArgumentError, match="no kept page of task 1 is as asked for"):
        crawling.begin(first, reason="timeout")


def test_all_tasks_of_a_spider(crawling: Crawling) -> None:
    first, second = crawling.crawl(), crawling.crawl()
    mended(crawling)
    task = crawling.parse(spider="houses")
    assert numbers(task) == (15, 15, 0, 0)
    assert [numbers(one) for one in (first, second)] == [(8, 7, 1, 6)] * 2
    assert {row["source_task"] for row in told(task)} == {first.pk, second.pk}


def test_wishes_that_do_not_fit(crawling: Crawling) -> None:
    first = crawling.crawl()
    task = crawling.parse(first)
    for given, problem in (
        ({"task": task}, f"task {task.pk} parses kept pages itself, those of {first.pk}"),
        ({"spider": "houses", "follow": True}, "follow needs a task"),
        ({"spider": "houses", "wait": True}, "wait needs a task"),
        ({"task": first, "follow": True, "dry_run": True}, "a dry run follows nothing"),
        ({"task": first, "key": "k" * 101}, "key: it has more than 100 characters"),
        ({"spider": "house"}, "there is no task of spider 'house'"),
    ):
        with pytest.raises(ArgumentError, match=problem):
            crawling.begin(**given)
    KeptPage.objects.all().delete()
    with pytest.raises(ArgumentError, match="no page of task 1 is kept"):
        crawling.begin(first)


def test_a_sample_is_tried_and_replaces_nothing(crawling: Crawling) -> None:
    first = crawling.crawl(keep="sample")
    assert KeptPage.objects.exclude(sample=None).count() == 4
    mended(crawling)
    task = crawling.parse(first, dry_run=True)
    assert numbers(task) == (8, 8, 0, 0)
    assert in_words(reparse_of(task) or Reparse()) == (
        f"pages of task {first.pk} and a sample of 4 of the pages that are done, dry run"
    )
    with pytest.raises(ArgumentError, match="that are done only a sample of 4 is kept"):
        crawling.begin(first, reason="")
    with pytest.raises(ArgumentError, match="that are done only a sample of 3 is kept"):
        crawling.begin(spider="houses", reason="", callback="house")
    task = crawling.parse(first)
    assert numbers(task) == (4, 4, 0, 0)
    assert "without a sample of 4 of" in in_words(reparse_of(task) or Reparse())


def test_a_page_that_fails_today_stays_as_it_was(crawling: Crawling) -> None:
    class Worse(Mended):
        name = "houses"

        def house(self, response: Response) -> Any:
            raise KeyError("no")

    first = crawling.crawl()
    before = everything()
    mended(crawling, Worse)
    task = crawling.parse(first)
    assert everything(task) == before
    assert (task.outcome, task.ne) == ("failed", 5)
    assert audit(task) == audit(first) == []


def test_an_error_that_is_one_still_is_parsed_by_its_errback(crawling: Crawling) -> None:
    class Sorry(Houses):
        name = "houses"

        def gone(self, error: Any) -> Any:
            yield {"url": error.request.url, "gone": "sold"}

    first = crawling.crawl()
    mended(crawling, Sorry)
    task = crawling.parse(first, reason="http_404")
    (row,) = told(task)
    assert (row["changed"], row["repaired"]) == (1, False)
    assert rows(first)["http://shop.example/5"] == ["error", "http_404", 1, "second"]
    assert numbers(first) == (8, 5, 3, 4)
    assert task.outcome == "finished"
    assert audit(first) == []


def test_a_status_that_is_handled_today_is_repaired(crawling: Crawling) -> None:
    class Handles(Houses):
        name = "houses"
        settings = {**Houses.settings, "handle_statuses": (404,)}

        def house(self, response: Response) -> Any:
            yield {"url": response.url, "status": response.status}

    first = crawling.crawl()
    mended(crawling, Handles)
    crawling.parse(first, reason="http_404")
    assert rows(first)["http://shop.example/5"] == ["done", "", 1, "second"]
    assert {"url": "http://shop.example/5", "status": 404} in items(first)
    assert numbers(first) == (8, 6, 2, 4)


def test_a_page_that_is_not_kept_any_more_is_an_error_of_the_parse(crawling: Crawling) -> None:
    first = crawling.crawl()
    mended(crawling)
    task = crawling.begin(first)
    (number,) = KeptPage.objects.filter(url__endswith="/1").values_list("pk", flat=True)
    broken = KeptPage.objects.get(url__endswith="/4").body_id
    PageBody.objects.filter(pk=broken).update(data=b"torn")
    admission = page_admission(task.pk, number)
    KeptPage.objects.filter(pk=number).delete()
    outcome, _ = crawling.take(task, admission)
    assert (outcome.reason, outcome.detail) == ("not_kept", "the page is not kept any more")
    (number,) = KeptPage.objects.filter(url__endswith="/4").values_list("pk", flat=True)
    outcome, _ = crawling.take(task, page_admission(task.pk, number))
    assert outcome.reason == "store"
    assert "cannot be decompressed" in outcome.detail
    assert numbers(first) == (8, 5, 3, 4)


class Deeper(Mended):
    name = "houses"

    def house(self, response: Response) -> Any:
        yield from super().house(response)
        yield Request(response.urljoin("/0"), "house")  # known
        yield Request(response.urljoin(f"/more{response.url[-1]}"), "more")

    def more(self, response: Response) -> Any:
        yield {"url": response.url, "more": True}
        yield Request(response.urljoin("/"))  # known


def test_new_links_are_counted_and_followed_if_that_is_wanted(crawling: Crawling) -> None:
    first = crawling.crawl()
    mended(crawling, Deeper)
    crawling.web.site |= {f"/more{n}": (200, b"more") for n in range(5)}
    before = [*crawling.web.asked]
    task = crawling.parse(first)
    assert {row["url"][-1]: row["links"] for row in told(task)} == dict.fromkeys("01234", 1)
    assert crawling.web.asked == before
    assert numbers(task) == (8, 8, 0, 0)
    task = crawling.parse(first, follow=True)
    assert sorted(crawling.web.asked[len(before) :]) == [f"/more{n}" for n in range(5)]
    assert numbers(task) == (13, 13, 0, 5)
    assert [data["more"] for data in items(task)] == [True] * 5
    assert numbers(first) == (8, 7, 1, 6)
    assert audit(task) == audit(first) == []


class Repeats(Houses):
    """Each of the five houses asks for the same page twice."""

    name = "houses"

    def house(self, response: Response) -> Any:
        yield {"url": response.url}
        for _ in range(2):
            yield Request(response.urljoin("/ping"), "ping", dont_filter=True)

    def ping(self, response: Response) -> Any: ...


class RepeatsLater(Repeats):
    """The same behind a new link, and three times on one page."""

    name = "houses"

    def house(self, response: Response) -> Any:
        yield Request(response.urljoin(f"/more{response.url[-1]}"), "ping")
        yield from super().house(response)
        if response.url.endswith("/3"):
            yield Request(response.urljoin("/ping"), "ping", dont_filter=True)


def test_links_that_are_not_filtered_are_new_only_if_there_are_more(crawling: Crawling) -> None:
    crawling.web.site["/ping"] = (200, b"")
    crawling.spider = Repeats
    first = crawling.crawl()
    assert crawling.web.asked.count("/ping") == 10
    mended(crawling, Repeats)
    assert told(crawling.parse(first)) == []
    mended(crawling, RepeatsLater)
    found = {row["url"][-1]: row["links"] for row in told(crawling.parse(first))}
    assert found == {"0": 1, "1": 1, "2": 1, "3": 2, "4": 1}


def test_nothing_but_the_items_comes_of_a_parse(crawling: Crawling) -> None:
    class Closes(Mended):
        name = "houses"

        def house(self, response: Response) -> Any:
            yield from super().house(response)
            self.stats.inc("seen")
            assert RUNNING.get(None) is not None
            raise CloseTask("enough")

        def closed(self, summary: Any) -> Any:
            raise AssertionError

    first = crawling.crawl()
    mended(crawling, Closes)
    task = crawling.parse(first)
    assert (task.outcome, task.closing, numbers(task)) == ("finished", "", (8, 8, 0, 0))
    assert numbers(first) == (8, 7, 1, 6)


def test_a_callback_that_fetches_is_refused(crawling: Crawling) -> None:
    class Asks(Mended):
        name = "houses"

        async def house(self, response: Response) -> Any:
            assert self._inline is not None
            await self._inline.fetch(Request("http://shop.example/other"))
            yield {}

    first = crawling.crawl()
    mended(crawling, Asks)
    task = crawling.parse(first, callback="house", reason="")
    assert "/other" not in crawling.web.asked
    detail = Page.objects.filter(task=task, state="error").values_list("detail", flat=True)[0]
    assert "kept pages are parsed without the network" in detail


def test_masked_headers_stay_masked(crawling: Crawling) -> None:
    seen: list[str] = []

    class Looks(Mended):
        name = "houses"

        def house(self, response: Response) -> Any:
            seen.append(response.headers["set-cookie"])
            assert response.headers["content-type"] == "text/html"
            yield from super().house(response)

    first = crawling.crawl()
    mended(crawling, Looks)
    crawling.parse(first, reason="callback")
    assert len(seen) == 2
    assert "4711" not in str(seen)


# -- at the same moment ---------------------------------------------------------------------------


def outcome_for(crawling: Crawling, task: Task, end: str) -> Any:
    (number,) = KeptPage.objects.filter(url__endswith=end).values_list("pk", flat=True)
    return crawling.outcome_of(task, page_admission(task.pk, number))[0]


def test_a_retry_that_was_first_wins(crawling: Crawling) -> None:
    first = crawling.crawl()
    mended(crawling)
    task = crawling.begin(first)
    outcome = outcome_for(crawling, task, "/1")
    assert retry(first.pk) == 3
    crawling.commit(outcome)
    assert not ParsedPage.objects.exists()
    assert not Item.objects.filter(data__url__endswith="/1").exists()
    assert rows(task)["http://shop.example/1"][0] == "done"


def test_a_repaired_page_is_not_retried(crawling: Crawling) -> None:
    first = crawling.crawl()
    mended(crawling)
    crawling.parse(first)
    assert retry(first.pk) == 1  # the missing one


def test_of_two_parses_the_second_finds_what_the_first_left(crawling: Crawling) -> None:
    first = crawling.crawl()
    mended(crawling)
    one, two = crawling.begin(first), crawling.begin(first)
    outcomes = [outcome_for(crawling, task, "/1") for task in (one, two)]
    for outcome in outcomes:
        crawling.commit(outcome)
        crawling.commit(outcome)  # as a worker that died would
    assert [row["repaired"] for row in told(one)] == [True]
    assert told(two) == []
    assert numbers(first) == (8, 6, 2, 5)
    assert audit(first) == []


def test_parses_and_a_retry_at_once(crawling: Crawling) -> None:
    """Two parses write the same pages in opposite order during a retry: no deadlock, one result."""
    first = crawling.crawl()
    mended(crawling, Richer)
    tasks = [crawling.begin(first) for _ in range(2)]
    numbers_ = [*KeptPage.objects.order_by("pk").values_list("pk", flat=True)]
    outcomes = {
        task.pk: [crawling.outcome_of(task, page_admission(task.pk, n))[0] for n in numbers_]
        for task in tasks
    }
    outcomes[tasks[1].pk].reverse()
    failures: list[BaseException] = []
    begin = threading.Barrier(3)

    def writes(task: int) -> None:
        ledger = DjangoLedger()
        begin.wait()
        for outcome in outcomes[task]:
            _commit(ledger, outcome)
        ledger.close()

    def retries() -> None:
        begin.wait()
        try:
            retry(first.pk)
        finally:
            connection.close()

    def guarded(what: Callable[[], None]) -> None:
        try:
            what()
        except WrongState:
            pass  # all of it was repaired, but for SQLite's turn
        except OperationalError as error:
            if connection.vendor != "sqlite":  # where one writer has to wait for another
                failures.append(error)
        except BaseException as error:
            failures.append(error)

    jobs: list[Callable[[], None]] = [partial(writes, task.pk) for task in tasks]
    threads = [threading.Thread(target=guarded, args=(job,)) for job in (*jobs, retries)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    first.refresh_from_db()
    assert audit(first) == []
    there = Page.objects.filter(task=first).count()
    assert Item.objects.filter(task=first).count() == sum(
        Page.objects.filter(task=first).values_list("items", flat=True)
    )
    assert there <= 8
    # Replaced items are replaced once.
    assert ReplacedItem.objects.filter(version="first").count() <= 4
    assert not ReplacedItem.objects.filter(version="second").exists()


def _commit(ledger: DjangoLedger, outcome: Outcome) -> None:
    while True:
        try:
            ledger.commit([outcome])
            return
        except LedgerAway:  # as SQLite says when another thread writes; the commit thread waits
            pass


def test_a_task_that_still_runs_is_counted_at_its_end(crawling: Crawling) -> None:
    first = crawling.crawl()
    Task.objects.filter(pk=first.pk).update(state="running", nf=0, ne=0, na=0, items=0)
    mended(crawling)
    crawling.parse(first)
    assert numbers(first) == (0, 0, 0, 0)
    crawling.ledger.tasks.finish({first.pk: Counts("running", 8, 5, 3, 0, 0, 0, 0, 0)})
    assert numbers(first) == (8, 7, 1, 6)


# -- fetching and parsing apart -------------------------------------------------------------------


def test_a_task_that_only_fetches_is_parsed_while_it_runs(crawling: Crawling) -> None:
    mended(crawling)
    crawling.frontier.spiders.publish([describe(Mended)])
    first = submit("houses", {}, settings={"fetch_only": "links", "keep": "all"})
    (root,) = unpack_admissions(first.seeds)
    outcome, (home,) = crawling.take(first, root)
    outcome, houses = crawling.take(first, home)
    assert (outcome.results.items, len(houses)) == ([], HOUSES)
    for one in houses[:2]:
        crawling.take(first, one)
    task = crawling.begin(first, wait=True)
    ledger, reparse = crawling.ledger, crawling.ledger.tasks.spec(task.pk).reparse  # type: ignore[union-attr]
    assert reparse is not None
    found, seen, over = ledger.pages.to_parse(reparse, 0, 10)
    assert (len(found), seen, over) == (3, found[-1], False)
    assert ledger.pages.to_parse(reparse, seen, 10) == ([], seen, False)
    for one in houses[2:]:
        crawling.take(first, one)
    more, seen, over = ledger.pages.to_parse(reparse, seen, 10)
    assert (len(more), over) == (4, False)
    Task.objects.filter(pk=first.pk).update(state="finished")
    assert ledger.pages.to_parse(reparse, seen, 10) == ([], seen, True)


class Fetches(Mended):
    name = "houses"
    settings = {**Houses.settings, "fetch_only": "links"}

    def parse(self, response: Response) -> Any:
        if response.url.endswith("/"):
            return
        yield from self.house(response)


def test_the_items_of_a_task_that_only_fetches_come_with_the_parse(crawling: Crawling) -> None:
    mended(crawling, Fetches)
    first = crawling.crawl()
    assert (first.outcome, numbers(first)) == ("finished_with_errors", (8, 7, 1, 0))
    assert not Profile.objects.exists()
    task = crawling.parse(first, wait=True)
    assert task.outcome == "finished"
    assert numbers(first) == (8, 7, 1, 5)
    assert {data["price"] for data in items(first)} == {*range(5)}
    assert audit(first) == audit(task) == []


def test_only_the_pages_that_start_names(crawling: Crawling) -> None:
    mended(crawling, Fetches)
    first = crawling.crawl(fetch_only="start")
    assert numbers(first) == (2, 2, 0, 0)
    assert first.outcome == "finished"


def test_fetching_only_needs_pages_that_are_kept() -> None:
    bad = type(
        "Bad", (Spider,), {"name": "bad", "settings": {"fetch_only": "start", "keep": "none"}}
    )
    with pytest.raises(SpiderError, match="fetch_only needs pages"):
        read_settings(bad)


# -- removed pages --------------------------------------------------------------------------------


def test_what_came_of_parsing_goes_with_the_tasks(crawling: Crawling) -> None:
    first = crawling.crawl()
    mended(crawling, Richer)
    crawling.parse(first)
    assert ParsedPage.objects.exists()
    assert ReplacedItem.objects.exists()
    Task.objects.update(finished_at=datetime(2020, 1, 1, tzinfo=UTC))
    assert sum(some.tasks for some in remove(Task.objects.all())) == 2
    assert not ParsedPage.objects.exists()
    assert not ReplacedItem.objects.exists()


@pytest.mark.parametrize(("rows", "dry_run"), [(5_000, True), (3, False)])
def test_values_of_a_removed_task_are_shown_no_more(
    crawling: Crawling, monkeypatch: pytest.MonkeyPatch, rows: int, dry_run: bool
) -> None:
    monkeypatch.setattr("crawlservice.tasks.removal.ROWS_PER_DELETE", rows)
    first, other = crawling.crawl(), crawling.crawl()
    mended(crawling, Richer)
    second, kept = crawling.parse(first, dry_run=dry_run), crawling.parse(other, dry_run=dry_run)
    before = told(second)
    assert any(row["examples"] for row in before)
    assert [*remove(Task.objects.filter(pk=first.pk))]
    assert told(second) == [row | {"examples": []} for row in before]
    assert any(row["examples"] for row in told(kept))


def test_the_open_page_of_a_running_task_does_not_sum_up_each_time(
    crawling: Crawling, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = crawling.crawl()
    mended(crawling, Richer)
    second = crawling.parse(first)
    monkeypatch.setattr(changes_module, "_summed", ttl_cache(1e9)(changes_module.changes))
    second.state = Task.State.RUNNING
    before = polled_changes(second)
    assert before.pages > 0
    ParsedPage.objects.all().delete()
    assert polled_changes(second) == before
    second.state = Task.State.FINISHED  # an ended task always shows correct numbers
    assert polled_changes(second).pages == 0


def test_which_requests_have_a_row(crawling: Crawling) -> None:
    crawling.crawl()
    rids = {outcome.rid for outcome in crawling.outcomes}
    assert crawling.ledger.recorded_requests([*rids, b"0" * 16]) == rids


# -- items that are rows --------------------------------------------------------------------------


@pytest.fixture
def tables(service: Frontier) -> None:
    with connection.schema_editor() as editor:
        for model in (Agent, House, Shed):
            editor.create_model(model)


def prices() -> dict[str, int]:
    return dict(House._default_manager.values_list("url", "price"))


@pytest.mark.usefixtures("tables")
def test_rows_are_saved_again_by_their_upsert(crawling: Crawling) -> None:
    class Rows(Houses):
        name = "houses"

        def house(self, response: Response) -> Any:
            text = response.css(".price::text").get() or response.css(".cost::text").get()
            yield Upsert(House(url=response.url[-1], price=int(text or "")), on="url")

    class Cents(Rows):
        name = "houses"

        def house(self, response: Response) -> Any:
            for upsert in super().house(response):
                upsert.item.price *= 100
                yield upsert

    crawling.spider = Rows
    first = crawling.crawl()
    before = {str(n): n for n in range(5)}
    assert prices() == before
    House._default_manager.filter(url="0").delete()  # by hand; its page does not differ
    mended(crawling, Cents)
    crawling.parse(first, dry_run=True)
    assert prices() == {url: n for url, n in before.items() if url != "0"}
    crawling.parse(first)
    assert prices() == {url: 100 * n for url, n in before.items() if url != "0"}
    assert {item.model for item in Item.objects.filter(version="second")} == {"estate.House"}
    assert audit(first) == []


@pytest.mark.usefixtures("tables")
def test_rows_that_would_be_doubled_are_refused(crawling: Crawling) -> None:
    class Sheds(Houses):
        name = "houses"

        def house(self, response: Response) -> Any:
            yield Shed(size=int(response.css(".price::text").get() or ""))

    class More(Mended):
        name = "houses"

        def house(self, response: Response) -> Any:
            for item in super().house(response):
                yield Shed(size=item["price"] + 10)

    crawling.spider = Sheds
    first = crawling.crawl()
    before = [*Item.objects.values()]
    mended(crawling, More)
    found = []
    for dry_run in (True, False):
        task = crawling.parse(first, dry_run=dry_run)
        found.append({url: row[:3] for url, row in rows(task).items()})
        refused = Page.objects.filter(task=task, state="error")
        assert {page.detail for page in refused} == {
            "estate.Shed: its rows are inserted, so parsing the page again would double them; "
            "give the model an Upsert"
        }
        assert {page.url[-1] for page in refused} == {"0", "2", "3"}
    assert found[0] == found[1]
    assert [*Item.objects.filter(version="first").values()] == before
    # Those whose first run had failed have no rows yet.
    sizes = sorted(Shed._default_manager.values_list("size", flat=True))
    assert sizes == [0, 2, 3, 11, 14]


class Bad(Mended):
    name = "houses"

    def house(self, response: Response) -> Any:
        for item in super().house(response):
            yield House(url=response.url, price=-1 if item["price"] == 4 else item["price"])


@pytest.mark.usefixtures("tables")
def test_a_dry_run_finds_what_the_database_refuses(crawling: Crawling) -> None:
    first = crawling.crawl()
    mended(crawling, Bad)
    House._default_manager.create(url="http://shop.example/1", price=7)
    states = []
    for dry_run in (True, False):
        task = crawling.parse(first, reason="callback", dry_run=dry_run)
        states.append({url: row[:2] for url, row in rows(task).items()})
    assert states[0] == states[1]
    assert states[0]["http://shop.example/1"] == ["error", "refused"]


def test_items_are_compared_by_what_the_spider_expects_to_be_unique(crawling: Crawling) -> None:
    class Twice(Mended):
        name = "houses"
        expect = Expect(unique=("url",))

        def house(self, response: Response) -> Any:
            for item in super().house(response):
                yield {"url": f"{response.url}?first", "price": 1}
                yield item

    crawling.spider = type("Once", (Houses,), {"name": "houses", "expect": Twice.expect})
    first = crawling.crawl()
    mended(crawling, Twice)
    task = crawling.parse(first, reason="")
    assert (task.reparse or {})["key"] == "url"
    assert {(row["added"], row["changed"], row["removed"]) for row in told(task)} == {(1, 0, 0)}
    task = crawling.parse(first, reason="", key="")
    assert told(task) == []


def test_pages_in_segments(
    crawling: Crawling,
    tmp_path: Path,
    settings_with: Callable[..., None],
    request: pytest.FixtureRequest,
) -> None:
    settings_with(CRAWLFRAME=replace(settings.CRAWLFRAME, pages=str(tmp_path)))
    crawling.ledger = DjangoLedger()
    first = crawling.crawl()
    assert not PageBody.objects.filter(segment=None).exists()
    mended(crawling)
    crawling.parse(first)
    assert numbers(first) == (8, 7, 1, 6)
