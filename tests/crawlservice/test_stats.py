"""Numbers counted by spiders: in the row of the page, and in the task's sums, each page once."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from io import StringIO
from typing import Any
from uuid import UUID

import pytest
from django.db import OperationalError
from rich.console import Console

from crawlframe.base.stats import MAX_NAMES, OTHER, PageStats
from crawlframe.frontier import Counts
from crawlframe.run.ledger import LedgerAway, LedgerRefused
from crawlframe.run.outcome import Outcome, Verdict
from crawlservice.api.tasks.tasks import serialized
from crawlservice.cli.task.report import report
from crawlservice.ledger.audit import audit
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import Page, Stat, Task
from crawlservice.tasks.progress.stats import TaskStats, of_tasks
from crawlservice.tasks.removal import remove
from crawlservice.tasks.retry import retry
from tests.crawlservice.test_store import outcome

both = pytest.mark.databases("sqlite", "postgres")


@pytest.fixture
def task(orm: str) -> Task:
    return Task.objects.create(spider="s", seeds=b"")


def counted(task: Task, name: str, counters: Any = (), maxima: Any = (), items: int = 1) -> Outcome:
    made = outcome(task, name, items)
    made.results.stats = PageStats(dict(counters), dict(maxima))
    return made


def stats(task: Task) -> TaskStats | None:
    return of_tasks([task.pk]).get(task.pk)


@both
def test_a_page_counts_once_however_often_it_is_run(task: Task) -> None:
    ledger = DjangoLedger()
    batch = [
        counted(task, "a", {"books": 2}, {"price": 7.5}),
        counted(task, "b", {"books": 3, "seen": 1}, {"price": 2}),
        outcome(task, "c"),
    ]
    ledger.commit(batch)
    ledger.commit(batch)
    ledger.commit(
        [counted(task, "a", {"books": 100}, {"price": 100}), counted(task, "c", {"x": 1})]
    )
    ledger.commit([counted(task, "d", {"books": -1}, {"price": -3})])
    assert stats(task) == TaskStats({"books": 4, "seen": 1}, {"price": 7.5})
    page = Page.objects.get(rid=UUID(bytes=batch[0].rid))
    assert page.stats == {"counters": {"books": 2}, "maxima": {"price": 7.5}}
    assert Page.objects.filter(stats__isnull=True).count() == 1
    assert of_tasks([task.pk + 1]) == {}


@both
def test_rows_and_numbers_are_of_one_transaction(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: object, outcomes: object) -> None:
        raise OperationalError("gone")

    monkeypatch.setattr("crawlservice.tasks.progress.stats.StatsOfPages.write", fail)
    with pytest.raises(LedgerAway, match="gone"):
        DjangoLedger().commit([counted(task, "a", {"books": 2})])
    assert (Page.objects.count(), Stat.objects.count()) == (0, 0)


@both
def test_workers_that_count_the_same_do_not_deadlock(task: Task) -> None:
    problems: list[Exception] = []
    names = [f"n{n}" for n in range(20)]

    def write(worker: int, order: list[str]) -> None:
        ledger = DjangoLedger()
        try:
            for turn in range(5):
                ledger.commit(
                    [
                        counted(task, f"{worker}-{turn}-{name}", {name: 1, "all": 1})
                        for name in order
                    ]
                )
        except Exception as error:
            problems.append(error)
        finally:
            ledger.close()

    threads = [
        threading.Thread(target=write, args=(n, order))
        for n, order in enumerate((names, names[::-1], names))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert stats(task) == TaskStats({"all": 300, **dict.fromkeys(names, 15)}, {})
    assert [line for line in audit(task) if "counter" in line] == []


@both
def test_reasons_of_dropped_items_beyond_the_limit_become_one(task: Task) -> None:
    ledger = DjangoLedger()
    ledger.commit([counted(task, f"a{n}", {f"dropped/{n}": 1}) for n in range(MAX_NAMES + 20)])
    ledger.commit([counted(task, "b", {"dropped/1": 1, "dropped/new": 2})])
    found = stats(task)
    assert found is not None
    assert (found.counters[OTHER], found.counters["dropped/1"]) == (22, 2)
    assert len(found.counters) == MAX_NAMES + 1
    assert [line for line in audit(task) if "counter" in line] == []


def test_a_name_beyond_the_limit_is_refused(task: Task) -> None:
    ledger = DjangoLedger()
    ledger.commit([counted(task, "a", {f"n{n}": 1 for n in range(MAX_NAMES)})])
    ledger.commit([counted(task, "b", {"n3": 1})])
    with pytest.raises(LedgerRefused, match=r"has 100 names of stats, and 'one more' would be"):
        ledger.commit([counted(task, "c", {"one more": 1})])
    assert Page.objects.count() == 2


@both
@pytest.mark.usefixtures("service")
def test_a_retry_counts_what_is_left(add_page: Callable[..., Page]) -> None:
    task = Task.objects.create(spider="shop", seeds=b"", state="finished", na=3, nf=1, ne=2)
    add_page(task, b"a", stats={"counters": {"seen": 2}, "maxima": {"price": 5}})
    for name, price in ((b"b", 9), (b"c", 4)):
        add_page(
            task, name, state="error", reason="timeout",
            stats={"counters": {"seen": 1, "late": 1}, "maxima": {"price": price}},
        )  # fmt: skip
    Stat.objects.create(task=task, kind="counter", name="seen", value=4)
    assert retry(task.pk) == 2
    assert stats(task) == TaskStats({"seen": 2}, {"price": 5})


def test_the_audit_compares(task: Task, add_page: Callable[..., Page]) -> None:
    add_page(task, b"a", stats={"counters": {"seen": 2}, "maxima": {}})
    Task.objects.filter(pk=task.pk).update(state="finished", na=1, nf=1)
    task.refresh_from_db()
    expected = f"task {task.pk}: its counter seen is None, its pages have 2.0"
    assert expected in audit(task)
    Stat.objects.create(task=task, kind="counter", name="seen", value=2)
    assert expected not in audit(task)


@pytest.mark.usefixtures("service")
def test_stats_are_deleted_with_their_task(task: Task) -> None:
    DjangoLedger().commit([counted(task, "a", {"seen": 1})])
    Task.objects.filter(pk=task.pk).update(state="finished", na=1, nf=1)
    assert [*remove(Task.objects.filter(pk=task.pk))]
    assert not Stat.objects.exists()


def test_a_page_closes_its_task_with_its_row(task: Task) -> None:
    ledger = DjangoLedger()
    first, late = outcome(task, "a"), outcome(task, "a")
    first.results.closing, late.results.closing = "enough", "later"
    assert ledger.commit([first])[first.rid].new
    assert not ledger.commit([late])[first.rid].new
    other = outcome(task, "b")
    other.results.closing = "also enough"
    ledger.commit([other])
    task.refresh_from_db()
    assert (task.state, task.closing) == ("cancelling", "enough")


@pytest.mark.parametrize(
    ("done", "errors", "cancelled", "outcome_", "reason"),
    [
        (3, 0, 5, "finished", "enough"),
        (0, 0, 1, "finished", "enough"),
        (6, 1, 2, "finished_with_errors", "enough; 1 of 6 pages ended in error, all timeout"),
        (2, 4, 0, "failed", "enough; 4 of 5 pages ended in error, all timeout"),
    ],
)
def test_a_task_that_its_spider_closed_has_finished(
    task: Task, done: int, errors: int, cancelled: int, outcome_: str, reason: str
) -> None:
    ledger = DjangoLedger()
    batch = [outcome(task, f"d{n}", 0) for n in range(done)]
    batch += [outcome(task, f"e{n}", 0).end(Verdict.ERROR, "timeout") for n in range(errors)]
    if batch:
        batch[0].results.closing = "enough"
        ledger.commit(batch)
    else:
        Task.objects.filter(pk=task.pk).update(state="cancelling", closing="enough")
    na, ne = done + errors + cancelled, errors + cancelled
    counts = Counts("cancelling", na, done, ne, 0, 0, 0, 0, 0, cancelled=cancelled)
    assert ledger.tasks.finish({task.pk: counts}) == {task.pk}
    task.refresh_from_db()
    assert (task.state, task.outcome, task.reason) == ("finished", outcome_, reason)
    assert task.unwritten == (cancelled or None)
    assert ledger.tasks.finish({task.pk: counts}) == {task.pk}


@pytest.fixture
def counted_task(ended_task: Task) -> Task:
    for kind, name, value in (
        ("counter", "books", 1234), ("counter", "dropped/<old>", 2), ("maximum", "price", 7.25),
        ("maximum", "size", 9),
    ):  # fmt: skip
        Stat.objects.create(task=ended_task, kind=kind, name=name, value=value)
    return ended_task


def test_the_page_of_a_task_shows_them(counted_task: Task, as_role: Callable[[str], Any]) -> None:
    browser = as_role("viewer")
    for part in ("pages", "pages/now"):
        page = browser.get(f"/admin/crawlservice/task/{counted_task.pk}/{part}/").content.decode()
        rows = re.findall(r'<td class="cf-long">([^<]*)</td><td class="cf-number">([^<]*)<', page)
        assert rows == [
            ("books", "1,234"), ("dropped/&lt;old&gt;", "2"), ("price", "7.250"), ("size", "9"),
        ]  # fmt: skip
    counted_task.state, counted_task.closing = Task.State.CANCELLING, "enough"
    counted_task.save()
    page = browser.get(f"/admin/crawlservice/task/{counted_task.pk}/now/").content.decode()
    assert "It is closed: enough" in page


def test_the_api_and_reports_tell_them(counted_task: Task) -> None:
    told = serialized([counted_task])[0]
    assert told.stats == {"books": 1234, "dropped/<old>": 2}
    assert told.maxima == {"price": 7.25, "size": 9}
    assert told.closing == ""
    with StringIO() as text:
        Console(file=text, width=100).print(report(counted_task))
        lines = text.getvalue().splitlines()
    found = [
        line.rstrip().split(maxsplit=2) for line in lines if "counted" in line or "largest" in line
    ]
    assert ["counted", "1,234", "books"] in found
    assert ["largest", "7.25", "price"] in found
