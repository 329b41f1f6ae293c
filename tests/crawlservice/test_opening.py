"""Tasks that are being opened while a steward looks: they are neither lost, nor is the database."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from crawlframe.conf import Settings
from crawlframe.frontier import Frontier
from crawlservice.connections import contained
from crawlservice.ledger.recovery import ERAS, renew
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import Era, Task
from crawlservice.steward import task_chore
from crawlservice.steward.steward import Steward
from crawlservice.steward.task_chore import TaskChore
from crawlservice.tasks import bulk_submit, submit
from crawlservice.tasks.bulk_submit import WantedTask, submit_many
from tests.crawlservice.chores import work_of
from tests.crawlservice.graph import GraphCrawl

pytestmark = pytest.mark.usefixtures("few_chores")
both = pytest.mark.databases("sqlite", "postgres")


@pytest.fixture
def steward(published: Frontier) -> Steward:
    renew(published)
    return Steward(Settings(), published)


def close(crawl: GraphCrawl, frontier: Frontier) -> None:
    """Makes Redis forget the task, as when it was closed."""
    frontier.cancel(crawl.task.pk)
    frontier.close_tasks([crawl.task.pk])


def between(
    steward: Steward, monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object]
) -> None:
    """A round in which something happens after it has read the tasks."""
    with monkeypatch.context() as patched:
        patched.setattr(
            work_of(steward, "tasks", TaskChore)._stillness, "examine", lambda found: happens()
        )
        steward.tick()
    steward.tick()


def test_who_submits_opens_a_task_and_a_steward_only_what_was_forgotten(
    steward: Steward, published: Frontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(submit, "open_in_frontier", lambda task: None)  # it is about to
        task = submit.submit("shop", {"city": "Ulm"})
    for _ in range(3):
        steward.tick()
    assert not published.is_open(task.pk)
    monkeypatch.setattr(task_chore, "OPEN_SECONDS", 0.0)
    steward.tick()
    assert published.is_open(task.pk)


@pytest.mark.parametrize("pages", [1, 2, 99])
def test_a_task_that_is_opened_and_crawled_meanwhile(
    steward: Steward, published: Frontier, monkeypatch: pytest.MonkeyPatch, pages: int
) -> None:
    """To its end, if that is not far."""
    crawl = GraphCrawl(published, pages=5)
    close(crawl, published)
    Task.objects.update(retries=0)

    def happens() -> None:
        submit.open_in_frontier(crawl.task)
        left = pages
        while left > 0 and crawl.work(published, 1):
            left -= 1
        counts = published.counts(crawl.task.pk)
        assert counts is not None
        published.close_tasks(DjangoLedger().tasks.finish({crawl.task.pk: counts}))

    between(steward, monkeypatch, happens)
    assert Era.objects.count() == 1
    assert contained.failures.named() == []
    while crawl.work(published, 9):
        pass
    steward.tick()
    assert Task.objects.get().state == Task.State.FINISHED


def test_an_end_that_the_database_forgets_again_and_again_begins_no_era_for_ever(
    steward: Steward, published: Frontier
) -> None:
    for _ in range(ERAS + 2):
        crawl = GraphCrawl(published, pages=5)
        while crawl.work(published, 9):
            pass
        published.close_tasks([crawl.task.pk])
        steward.tick()
    assert Era.objects.count() == 1 + ERAS
    assert any("once more after" in text for text in contained.failures.named())
    steward.tick()
    assert not Task.objects.filter(state__in=Task.ACTIVE).exists()


@both
def test_a_batch_is_recorded_together(
    steward: Steward, published: Frontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And opened as one by one."""
    user = User.objects.create_user("ops", is_superuser=True)
    recorded: list[int] = []
    wanted = [WantedTask("shop", {"city": f"city {n}"}, labels={"n": str(n)}) for n in range(60)]
    done = Task.objects.create(
        spider="shop", seeds=b"", na=7, state="finished", outcome="finished",
        arguments_hash=submit.submit("shop", {"city": "city 3"}).arguments_hash,
    )  # fmt: skip
    with CaptureQueriesContext(connection) as queries:
        tasks = submit_many(wanted, user, lambda task: recorded.append(task.pk))
    assert len(queries) < 4 * len(wanted)
    assert recorded == [task.pk for task in tasks]
    assert [task.arguments["city"] for task in tasks] == [f"city {n}" for n in range(60)]
    rows = Task.objects.in_bulk(recorded)
    assert [rows[pk].previous_na for pk in recorded] == [
        done.na if n == 3 else None for n in range(60)
    ]
    assert all(rows[pk].seeds for pk in recorded)
    assert {*recorded} <= {*published.open_tasks()}
    counts = published.counts_of(recorded)
    assert {c.na for c in counts.values() if c} == {1}


def test_a_task_that_ended_before_its_batch_was_opened_stays_closed(
    steward: Steward, published: Frontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = User.objects.create_user("ops", is_superuser=True)
    monkeypatch.setattr(submit, "BATCH", 1)
    opened: list[int] = []
    open_ = submit.open_in_frontier

    def end_the_other(task: Task) -> None:
        opened.append(task.pk)
        Task.objects.exclude(pk__in=opened).update(state=Task.State.FINISHED)
        open_(task)

    monkeypatch.setattr(submit, "open_in_frontier", end_the_other)
    first, other = submit_many([WantedTask("shop", {"city": "Ulm"})] * 2, user, lambda task: None)
    assert published.open_tasks() == opened == [first.pk]
    assert bulk_submit.KEY_AGE
    assert other.pk
