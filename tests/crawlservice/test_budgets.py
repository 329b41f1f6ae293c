"""Budgets of tasks: bytes and time close them, and all surfaces report links stopped by limits."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.db.models import F
from django.db.models.functions import Now
from rich.console import Console

from crawlframe.base.limits import UNFOLLOWED, ByteBudget, TrapSighting
from crawlframe.base.stats import MAX_NAMES, PageStats
from crawlframe.conf import Settings
from crawlframe.frontier import Completion, Counts, Frontier
from crawlframe.request.request import Admission, make_rid, root_admission
from crawlframe.run.outcome import Outcome, Verdict
from crawlframe.spider.spider import Spider, describe
from crawlservice.api.tasks.tasks import serialized
from crawlservice.cli.task.report import report
from crawlservice.ledger.audit import audit
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import Page, Spent, Stat, Task, Trap
from crawlservice.steward.steward import Steward
from crawlservice.tasks.progress import budgets
from crawlservice.tasks.removal import remove
from crawlservice.tasks.retry import retry
from crawlservice.tasks.stored_limits import limits_as_written, limits_of
from crawlservice.tasks.submit import pause, resume, submit
from tests.crawlservice.graph import GraphCrawl
from tests.crawlservice.test_cancellation import cancel, end
from tests.crawlservice.test_store import outcome

both = pytest.mark.databases("sqlite", "postgres")

HOUR = timedelta(hours=1)


class Bounded(Spider):
    name = "bounded"
    settings = {
        "delay": 2.5, "page_limit": 7, "host_page_limit": 3, "byte_limit": 1000, "url_length": None,
        "time_limit": 3600, "traps": "stop",
    }  # fmt: skip

    def start(self) -> Any: ...


@pytest.fixture
def task(orm: str) -> Task:
    return Task.objects.create(spider="s", seeds=b"")


@pytest.fixture
def bounded(service: Frontier) -> Task:
    return submit("bounded", {}, info=describe(Bounded))


def sized(task: Task, name: str, size: int, limit: int = 0, host_limit: int = 0) -> Outcome:
    made = outcome(task, name)
    made.fetch.size, made.host = size, name[0]
    made.fetch.budget = ByteBudget(limit, host_limit)
    return made


def spent(task: Task) -> dict[str, int]:
    return dict(Spent.objects.filter(task=task).values_list("host", "bytes"))


def on_host(outcome: Outcome) -> int:
    """The bytes of its host that all have spent, as its process learned."""
    assert outcome.fetch.budget is not None
    return outcome.fetch.budget.spent.get(outcome.host, 0)


@both
def test_each_page_spends_its_bytes_once(task: Task) -> None:
    ledger = DjangoLedger()
    batch = [sized(task, name, 100, 10_000, 500) for name in ("a1", "a2", "b1")]
    ledger.commit([*batch, outcome(task, "c")])
    assert [on_host(one) for one in batch] == [200, 200, 100]
    again = [sized(task, "a1", 9000, 10_000, 500), sized(task, "a3", 1, 10_000, 500)]
    ledger.commit(again)
    assert [on_host(one) for one in again] == [0, 201]
    assert spent(task) == {"": 301, "a": 201, "b": 100}
    task.refresh_from_db()
    assert task.state == Task.State.RUNNING


@both
def test_the_page_that_spends_the_last_bytes_closes_the_task(task: Task) -> None:
    ledger = DjangoLedger()
    one = sized(task, "a1", 999, 1000)
    ledger.commit([one])
    assert not one.results.closing
    failed = sized(task, "a2", 1, 1000).end(Verdict.ERROR, "http_404")
    ledger.commit([failed])
    assert failed.results.closing
    task.refresh_from_db()
    assert task.state == Task.State.CANCELLING
    assert task.closing == "byte_limit: 1,000 of 1,000 bytes were fetched"
    assert spent(task) == {"": 1000}


@both
def test_what_a_callback_fetched_itself_counts_with_its_page(task: Task) -> None:
    page = sized(task, "a1", 100, 10_000, 500)
    page.fetch.inline_bytes = {"b": 30, "a": 7}
    DjangoLedger().commit([page])
    assert on_host(page) == 107
    assert spent(task) == {"": 137, "a": 107, "b": 30}


def test_a_host_without_bytes_left_closes_nothing(task: Task) -> None:
    one = sized(task, "a1", 5000, host_limit=1000)
    DjangoLedger().commit([one])
    assert (one.results.closing, on_host(one)) == ("", 5000)
    assert spent(task) == {"a": 5000}


def test_tasks_without_a_limit_write_nothing(task: Task) -> None:
    DjangoLedger().commit([outcome(task, "a")])
    assert not Spent.objects.exists()


@both
def test_sightings_of_several_workers_are_added(task: Task) -> None:
    ledger = DjangoLedger()
    for name, sighting in (
        ("a", TrapSighting("h/{n}", 300, 12)),
        ("b", TrapSighting("h/{n}", 305, 9)),
        ("c", TrapSighting("h/" + "x" * 900, 80, 1)),
    ):
        made = outcome(task, name)
        made.results.trap = sighting
        ledger.commit([made])
        ledger.commit([made])
    traps = budgets.traps_of([task.pk])[task.pk]
    assert [(trap.pages, trap.contents) for trap in traps] == [(605, 12), (80, 1)]
    assert len(traps[1].template) == 500
    assert budgets.traps_of([task.pk + 1]) == {}


def test_links_that_were_not_followed_always_have_room(task: Task) -> None:
    made = outcome(task, "a")
    made.results.stats = PageStats(
        {f"n{n}": 1 for n in range(MAX_NAMES)} | {f"{UNFOLLOWED}trap": 3}
    )
    DjangoLedger().commit([made])
    assert Stat.objects.get(name=f"{UNFOLLOWED}trap").value == 3
    assert Stat.objects.count() == MAX_NAMES + 1


def test_limits_are_stored_with_the_task(bounded: Task) -> None:
    assert limits_as_written(bounded) == {
        "byte_limit": 1000, "time_limit": 3600, "host_page_limit": 3, "url_length": 0,
        "traps": "stop", "delay": 2.5, "concurrency": 8, "page_limit": 7,
    }  # fmt: skip
    limits = limits_of(bounded)
    assert (limits.page_limit, limits.host_page_limit) == (8, 3)


def test_a_task_without_a_time_limit_has_no_deadline(service: Frontier) -> None:
    plain = type("Plain", (Bounded,), {"settings": {"time_limit": 0}})
    task = submit("bounded", {}, info=describe(plain))
    task.refresh_from_db()
    assert task.deadline is None
    pause(task.pk)
    resume(task.pk)
    budgets.close_overdue()
    assert Task.objects.get(pk=task.pk).state == Task.State.RUNNING


@both
def test_the_time_of_a_task_passes_unless_it_is_paused(bounded: Task) -> None:
    def left() -> timedelta:
        row = Task.objects.annotate(clock=Now()).get(pk=bounded.pk)
        return row.deadline - row.clock  # type: ignore[operator]

    assert HOUR - timedelta(seconds=5) < left() <= HOUR
    pause(bounded.pk)
    pause(bounded.pk)
    Task.objects.filter(pk=bounded.pk).update(
        deadline=F("deadline") - HOUR, paused_at=F("paused_at") - 2 * HOUR
    )
    budgets.close_overdue()
    assert Task.objects.get(pk=bounded.pk).state == Task.State.PAUSED
    resume(bounded.pk)
    assert 2 * HOUR - timedelta(seconds=5) < left() < 2 * HOUR + timedelta(seconds=5)
    resume(bounded.pk)
    assert left() < 2 * HOUR + timedelta(seconds=5)
    task = Task.objects.get(pk=bounded.pk)
    assert task.paused_at is None
    assert 7200 <= task.idle < 7210


@both
def test_a_task_whose_time_is_over_is_closed(bounded: Task, service: Frontier) -> None:
    steward = Steward(Settings(), service)
    steward.tick()
    assert Task.objects.get(pk=bounded.pk).state == Task.State.RUNNING
    Task.objects.filter(pk=bounded.pk).update(deadline=F("deadline") - HOUR)
    for _ in range(3):
        steward.tick()
    task = Task.objects.get(pk=bounded.pk)
    assert task.closing == "time_limit: 3,600 seconds are over"
    assert (task.state, task.outcome, task.reason) == ("finished", "finished", task.closing)
    steward.resign()


@both
def test_a_retried_task_begins_with_new_budgets(bounded: Task, service: Frontier) -> None:
    root = root_admission(bounded.pk)
    failed = Outcome(root.rid, bounded.pk, root.host, root.record, 0, 0, url="start:")
    failed.fetch.size, failed.fetch.budget = 2000, ByteBudget(1000, 0)
    failed.end(Verdict.ERROR, "callback")
    DjangoLedger().commit([failed])
    service.claim(1, 1, 1)
    service.complete([Completion(root.rid, bounded.pk, root.host, True)])
    counts = service.counts(bounded.pk)
    assert counts is not None
    DjangoLedger().tasks.finish({bounded.pk: counts})
    Task.objects.filter(pk=bounded.pk).update(deadline=F("deadline") - 5 * HOUR)
    assert retry(bounded.pk) == 1
    assert spent(bounded) == {}
    budgets.close_overdue()
    task = Task.objects.get(pk=bounded.pk)
    assert (task.state, task.closing) == ("running", "")


def test_what_limits_stopped_is_told_after_the_end(
    bounded: Task, service: Frontier, as_role: Callable[[str], Any]
) -> None:
    root = root_admission(bounded.pk)
    hosts = ["a.example"] * 5 + ["b.example"] * 9
    links = [
        Admission(make_rid(bounded.pk, b"%d" % n), 0, host, 0, b"r") for n, host in enumerate(hosts)
    ]
    made = Outcome(root.rid, bounded.pk, root.host, root.record, 0, 0, url="start:")
    made.results.follow_ups = links
    made.results.stats = PageStats({f"{UNFOLLOWED}url_length": 1204, "books": 2})
    made.results.trap = TrapSighting("a.example/calendar/{n}", 1830, 12)
    DjangoLedger().commit([made])
    service.claim(1, 1, 1)
    service.complete([Completion(root.rid, bounded.pk, root.host, False, links)])
    expected = {"url_length": 1204, "host_page_limit": 8}
    assert serialized([bounded])[0].unfollowed == expected
    admitted = [*links[:3], *links[5:8]]
    pages = [Outcome(one.rid, bounded.pk, one.host, b"r", 0, 0, url="u") for one in admitted]
    DjangoLedger().commit(pages)
    service.complete([Completion(one.rid, bounded.pk, one.host, False) for one in admitted])
    counts = service.counts(bounded.pk)
    assert counts is not None
    assert DjangoLedger().tasks.finish({bounded.pk: counts})
    service.close_tasks([bounded.pk])
    task = Task.objects.get(pk=bounded.pk)
    assert task.refused == {"host_page_limit": 8}
    told = serialized([task])[0]
    assert (told.unfollowed, told.limited, told.stats) == (expected, 0, {"books": 2})
    assert [trap.model_dump() for trap in told.traps] == [
        {"template": "a.example/calendar/{n}", "pages": 1830, "contents": 12}
    ]
    with StringIO() as text:
        Console(file=text, width=120).print(report(task))
        lines = " ".join(text.getvalue().split())
    assert "stopped by url_length: 1,204 links were not followed" in lines
    assert "stopped by host_page_limit: 8 links were not followed" in lines
    assert "possible trap a.example/calendar/{n}: 1,830 pages, 12 different contents" in lines
    viewer, path = as_role("viewer"), f"/admin/crawlservice/task/{task.pk}/change/now/"
    page = viewer.get(path).content.decode()
    assert "Stopped by url_length: 1,204 links were not followed." in page
    assert "Possible trap: a.example/calendar/{n}: 1,830 pages, 12 different contents." in page
    note = "Nothing was stopped; the setting traps=stop would leave its links out."
    assert note not in page
    assert "nothing was stopped" not in lines
    reports = {**task.settings, "traps": "report"}
    Task.objects.filter(pk=task.pk).update(settings=reports)
    assert note in viewer.get(path).content.decode()
    with StringIO() as text:
        Console(file=text, width=120).print(report(Task.objects.get(pk=task.pk)))
        assert "different contents; nothing was stopped" in " ".join(text.getvalue().split())
    assert "unfollowed/" not in page
    assert audit(task) == []
    assert list(remove(Task.objects.filter(pk=task.pk)))
    assert not Trap.objects.exists()
    assert not Spent.objects.exists()


def test_refused_links_add_up_over_a_retry(task: Task) -> None:
    Task.objects.filter(pk=task.pk).update(refused={"page_limit": 3})
    DjangoLedger().tasks.finish(
        {task.pk: Counts("running", 0, 0, 0, 0, 4, 0, 0, 0, host_limited=2)}
    )
    task.refresh_from_db()
    assert task.refused == {"page_limit": 7, "host_page_limit": 2}


def test_a_cancelled_task_with_a_limit_per_host_has_as_many_rows(service: Frontier) -> None:
    crawl = GraphCrawl(service, host_page_limit=4)
    while Page.objects.count() < 12 and crawl.work(service, 3):
        pass
    counts = service.counts(crawl.task.pk)
    assert counts is not None
    cancel(crawl, service)
    assert end(service).na == counts.na
