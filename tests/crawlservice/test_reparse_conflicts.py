"""Kept pages parsed again while something else happens to them, or has: retries, other parses, a
watch, a quality that is judged, rows that would be doubled."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from crawlframe import Request, Spider, Upsert
from crawlframe.errors import ArgumentError, FetchError, RecordElsewhere, RecordGone
from crawlframe.frontier import Counts
from crawlframe.response.response import Response
from crawlframe.revisit import Revisit
from crawlframe.run.outcome import Verdict
from crawlframe.spider.spider import describe
from crawlservice.ledger.audit import audit
from crawlservice.ledger.cancellation import KnownRequests
from crawlservice.models import (
    Event,
    Finding,
    Item,
    KeptPage,
    Page,
    ParsedPage,
    Profile,
    ReplacedItem,
    Task,
    WatchedPage,
)
from crawlservice.pages import bodies
from crawlservice.quality import evaluation
from crawlservice.tasks.retry import retry
from crawlservice.watches import editing
from tests.crawlservice.reparsing import Crawling
from tests.crawlservice.test_model_items import House, Shed
from tests.crawlservice.test_reparse import (
    Deeper,
    Fetches,
    Houses,
    Mended,
    Richer,
    crawling,
    in_the_loop,
    items,
    mended,
    numbers,
    outcome_for,
    rows,
    tables,
    told,
)

BOTH = pytest.mark.databases("sqlite", "postgres")  # SQL that differs, or locks rows

__all__ = ("crawling", "in_the_loop", "tables")

URL = "http://shop.example/"


def retried(crawling: Crawling, task: Task) -> None:
    """Fetches the errors of a task again, until it ends again."""
    retry(task.pk)
    task.refresh_from_db()
    known = [one for batch in KnownRequests(task).batches() for one in batch]
    done = {rid.bytes for rid in Page.objects.filter(task=task).values_list("rid", flat=True)}
    crawling.outcomes = [crawling.take(task, one)[0] for one in [*known] if one.rid not in done]
    crawling.end(task, len(known))


def prices(task: Task) -> dict[str, Any]:
    return {data["url"][-1]: data["price"] for data in items(task) if "price" in data}


# -- retries --------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("keep", ["errors", "all"])
def test_what_a_retry_has_brought_is_newer_than_the_kept_page(
    crawling: Crawling, keep: str
) -> None:
    first = crawling.crawl(keep=keep)
    mended(crawling)
    crawling.web.site["/1"] = 200, b'<p class="cost">11'
    retried(crawling, first)
    before = prices(first)
    assert before["1"] == 11
    for dry_run in (True, False):
        assert told(crawling.parse(first, dry_run=dry_run)) == []
    assert prices(first) == before
    assert not ReplacedItem.objects.exists()
    assert audit(first) == []


@BOTH
def test_a_page_that_was_kept_anew_meanwhile_is_not_replaced_by_the_old_one(
    crawling: Crawling,
) -> None:
    first = crawling.crawl()
    mended(crawling)
    task = crawling.begin(first)
    outcome = outcome_for(crawling, task, "/1")
    crawling.web.site["/1"] = 200, b'<p class="cost">11'
    retried(crawling, first)
    crawling.commit(outcome)
    assert prices(first)["1"] == 11
    assert told(task) == []
    assert audit(first) == []


def test_a_retry_that_fails_without_a_page_leaves_the_kept_one_to_the_parse(
    crawling: Crawling,
) -> None:
    first = crawling.crawl()
    Page.objects.filter(task=first, reason="callback").update(reason="timeout")
    mended(crawling)
    crawling.parse(first, reason="callback")
    assert numbers(first) == (8, 7, 1, 6)


# -- two parses -----------------------------------------------------------------------------------


class Silent(Mended):
    """The failing pages bring no item, but are no errors any more."""

    name = "houses"

    def house(self, response: Response) -> Any:
        if response.css(".cost"):
            return
        yield from super().house(response)


@BOTH
@pytest.mark.parametrize("spider", [Silent, Richer])
def test_two_parses_of_a_page_in_one_transaction(crawling: Crawling, spider: type[Spider]) -> None:
    first = crawling.crawl()
    mended(crawling, spider)
    tasks = [crawling.begin(first) for _ in range(2)]
    outcomes = [outcome_for(crawling, task, end) for task in tasks for end in ("/0", "/1")]
    crawling.ledger.commit(outcomes)
    per_page = 0 if spider is Silent else 1
    assert numbers(first) == (8, 6, 2, 4 + per_page)
    assert sum(len(told(task)) for task in tasks) == 1 + per_page
    assert ReplacedItem.objects.count() == per_page
    assert audit(first) == []


# -- rows of models -------------------------------------------------------------------------------


@BOTH
@pytest.mark.usefixtures("tables")
def test_a_dry_run_finds_what_is_refused_at_the_commit(crawling: Crawling) -> None:
    class Orphans(Mended):
        name = "houses"

        def house(self, response: Response) -> Any:
            for item in super().house(response):
                yield Upsert(House(url=item["url"], price=1, agent_id=99), on="url")

    first = crawling.crawl()
    mended(crawling, Orphans)
    states = []
    for dry_run in (True, False):
        task = crawling.parse(first, reason="callback", dry_run=dry_run)
        states.append({url: row[:2] for url, row in rows(task).items()})
    assert states[0] == states[1]
    assert states[0][f"{URL}1"] == ["error", "refused"]
    assert numbers(first) == (8, 5, 3, 4)


@BOTH
@pytest.mark.usefixtures("tables")
def test_rows_whose_items_are_gone_are_not_doubled_later(crawling: Crawling) -> None:
    class Sheds(Mended):
        name = "houses"

        def house(self, response: Response) -> Any:
            for item in super().house(response):
                yield Shed(size=item["price"])

    class Empty(Mended):
        name = "houses"

        def house(self, response: Response) -> Any:
            return None

    crawling.spider = Sheds
    first = crawling.crawl()
    sizes = sorted(Shed._default_manager.values_list("size", flat=True))
    assert sizes == [0, 1, 2, 3, 4]
    mended(crawling, Empty)
    crawling.parse(first, callback="house", reason="")
    mended(crawling, Sheds)
    task = crawling.parse(first, callback="house", reason="")
    assert {row[1] for url, row in rows(task).items() if url != "pages:"} == {"refused"}
    assert sorted(Shed._default_manager.values_list("size", flat=True)) == sizes


def test_what_was_to_be_taken_over_is_not_that_of_other_code(crawling: Crawling) -> None:
    first = crawling.crawl()
    KeptPage.objects.update(signature=b"s" * 16)
    mended(crawling, Richer)
    crawling.parse(first)
    signed = KeptPage.objects.exclude(signature=None).values_list("url", flat=True)
    assert {*signed} == {URL, f"{URL}5"}


# -- quality --------------------------------------------------------------------------------------


def test_quality_is_judged_when_all_is_parsed(crawling: Crawling) -> None:
    """A task that only fetches ends while another task still parses its pages."""
    mended(crawling, Fetches)
    first = crawling.crawl()
    Task.objects.filter(pk=first.pk).update(state="running", outcome="")
    task = crawling.begin(first, wait=True)
    first_page = outcome_for(crawling, task, "/1")
    assert not evaluation.is_changing(first)
    crawling.commit(first_page)
    assert evaluation.is_changing(first)
    crawling.ledger.tasks.finish({first.pk: Counts("running", 8, 7, 1, 0, 0, 0, 0, 0)})
    assert [*Profile.objects.values_list("task", "judged", "last_item")] == [(first.pk, False, 0)]
    crawling.run(task)
    assert not evaluation.is_changing(first)
    assert [*Profile.objects.values_list("task", "judged", "last_item")] == [(first.pk, False, 0)]


def test_a_task_of_which_nothing_was_replaced_is_not_judged_anew(crawling: Crawling) -> None:
    first = crawling.crawl()
    mended(crawling, Deeper)
    crawling.parse(first, callback="house", reason="")
    before = [*Profile.objects.values_list("task", "judged")]
    assert before == [(first.pk, True)]
    assert ParsedPage.objects.filter(links=1).count() == 3


# -- watches --------------------------------------------------------------------------------------


def test_a_page_of_a_round_is_not_visited_by_a_parse(crawling: Crawling) -> None:
    class Watched(Mended):
        name = "houses"
        revisit = Revisit(every="1d")

    first = crawling.crawl()
    mended(crawling, Watched)
    crawling.frontier.spiders.publish([describe(Watched)])
    watch = editing.begin("houses", {})
    Task.objects.filter(pk=first.pk).update(watch=watch)
    for dry_run in (True, False):
        crawling.parse(first, dry_run=dry_run)
        assert not WatchedPage.objects.exists()
    assert prices(first) == {str(n): n for n in range(5)}
    assert not Profile.objects.filter(task=first, judged=False).exists()
    assert not Finding.objects.exists()


# -- the network ----------------------------------------------------------------------------------


def test_opened_fetches_nothing_for_a_parse(crawling: Crawling) -> None:
    class LogsIn(Mended):
        name = "houses"

        async def opened(self, task: Any) -> None:
            assert self._inline is not None
            await self._inline.fetch(Request(f"{URL}login"))

    first = crawling.crawl()
    mended(crawling, LogsIn)
    task = crawling.parse(first)
    assert "/login" not in crawling.web.asked
    details = Page.objects.filter(task=task, state="error").values_list("detail", flat=True)
    assert len(details) == 7
    assert "kept pages are parsed without the network" in details[0]


# -- unreadable pages -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "verdict"),
    [(RecordElsewhere("on node n2"), Verdict.DEFER), (RecordGone("deleted"), Verdict.ERROR)],
)
def test_a_segment_that_is_not_uploaded_yet_is_waited_for(
    crawling: Crawling, monkeypatch: pytest.MonkeyPatch, error: Exception, verdict: Verdict
) -> None:
    def read(numbers: Any) -> Any:
        raise error

    first = crawling.crawl()
    mended(crawling)
    task = crawling.begin(first)
    monkeypatch.setattr(bodies, "read", read)
    outcome = outcome_for(crawling, task, "/1")
    assert (outcome.verdict, outcome.reason, outcome.detail) == (verdict, "store", str(error))


@BOTH
def test_a_task_that_is_removed_at_that_moment_is_an_error_of_the_parse(
    crawling: Crawling,
) -> None:
    first = crawling.crawl()
    mended(crawling)
    task = crawling.begin(first)
    Item.objects.filter(task=first)._raw_delete("default")
    Page.objects.filter(task=first)._raw_delete("default")
    Profile.objects.filter(task=first)._raw_delete("default")
    Event.objects.filter(task=first)._raw_delete("default")
    Task.objects.filter(pk=first.pk)._raw_delete("default")
    outcome = outcome_for(crawling, task, "/1")
    assert (outcome.verdict, outcome.reason) == (Verdict.ERROR, "not_kept")


# -- which pages ----------------------------------------------------------------------------------


def test_pages_of_other_callbacks_are_looked_at_in_parts(crawling: Crawling) -> None:
    first = crawling.crawl()
    mended(crawling)
    task = crawling.begin(first, callback="parse")
    reparse = crawling.ledger.tasks.spec(task.pk).reparse  # type: ignore[union-attr]
    assert reparse is not None
    pages = [*KeptPage.objects.order_by("pk").values_list("pk", flat=True)]
    looked, after, over = [], 0, False
    while not over:
        found, after, over = crawling.ledger.pages.to_parse(reparse, after, 3)
        looked.append((found, after))
    assert looked == [([pages[0]], pages[2]), ([], pages[5]), ([], pages[6]), ([], pages[6])]


def test_a_callback_that_no_page_has(crawling: Crawling) -> None:
    first = crawling.crawl()
    mended(crawling)
    task = crawling.parse(first, callback="hose")
    assert (task.outcome, task.reason) == ("failed", "no kept page has the callback 'hose'")


def test_there_is_nothing_to_wait_for_when_a_task_has_ended(crawling: Crawling) -> None:
    first = crawling.crawl()
    mended(crawling)
    assert (crawling.begin(first, wait=True).reparse or {})["last"] > 0
    KeptPage.objects.all().delete()
    with pytest.raises(ArgumentError, match="no page of task 1 is kept"):
        crawling.begin(first, wait=True)


@pytest.mark.parametrize("year", [1, 1970, 2200, 9999])
def test_a_time_that_is_none(crawling: Crawling, year: int) -> None:
    first = crawling.crawl()
    since = datetime(year, 1, 1, tzinfo=timezone(timedelta(hours=14)))
    with pytest.raises(ArgumentError, match=r"since: .* is not between the years"):
        crawling.begin(first, since=since)
    crawling.begin(first, since=datetime(1971, 1, 1, tzinfo=UTC))


# -- middlewares ----------------------------------------------------------------------------------


class Unwraps:
    """Changes every page."""

    async def fetch(self, request: Request, call_next: Any) -> Response:
        got = await call_next(request)
        body = got.body.replace(b"cost", b"price")
        return Response(got.url, got.status, dict(got.headers), body, request)


class Passes:
    async def fetch(self, request: Request, call_next: Any) -> Response:
        passed.append(request.url)
        got: Response = await call_next(request)
        return got


passed: list[str] = []


def test_pages_that_middlewares_had_changed_are_changed_again(crawling: Crawling) -> None:
    crawling.spider = type("Unwrapped", (Houses,), {"name": "houses", "middlewares": [Unwraps]})
    first = crawling.crawl()
    assert numbers(first) == (8, 7, 1, 6)
    crawling.version = "second"
    task = crawling.parse(first)
    assert (task.outcome, told(task)) == ("finished", [])


def test_pages_that_middlewares_have_let_through_are_not_given_to_them(crawling: Crawling) -> None:
    passed.clear()
    crawling.spider = type("Passing", (Houses,), {"name": "houses", "middlewares": [Passes]})
    first = crawling.crawl()
    assert len(passed) == 7
    assert crawling.parse(first, reason="").ne == 0
    assert len(passed) == 7


class Refuses:
    """Knows a page that is none."""

    async def fetch(self, request: Request, call_next: Any) -> Response:
        got: Response = await call_next(request)
        if b"cost" in got.body:
            error = FetchError("a captcha")
            error.retryable, error.response = False, got
            raise error
        return got


def test_what_a_middleware_calls_an_error_is_not_repaired(crawling: Crawling) -> None:
    crawling.spider = type("Refusing", (Mended,), {"name": "houses", "middlewares": [Refuses]})
    first = crawling.crawl()
    assert numbers(first) == (8, 5, 3, 6)
    crawling.version = "second"
    crawling.parse(first)
    assert numbers(first) == (8, 5, 3, 6)
