"""Readers with a cursor: no item appears behind the settled number."""

from __future__ import annotations

import threading

import pytest
from django.db import connection, transaction

from crawlframe.run.outcome import Outcome
from crawlservice.exports import source
from crawlservice.ledger.commit_order import CommitOrder
from crawlservice.ledger.rows import insert
from crawlservice.models import Item, Page, Task

pytestmark = [pytest.mark.usefixtures("orm"), pytest.mark.databases("sqlite", "postgres")]


@pytest.fixture
def task() -> Task:
    return Task.objects.create(spider="s", seeds=b"")


class Writer:
    """Commits a page with items in a thread and on a connection of its own."""

    def __init__(self, task: Task, name: str, items: int) -> None:
        self._outcome = Outcome(
            name.encode().ljust(16, b"."), task.pk, "h", b"record", 1, 1, url=f"http://h/{name}"
        )
        self._outcome.results.items = [b"{}"] * items
        self._written, self._may_commit = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._work)
        self._thread.start()
        assert self._written.wait(60)

    def _work(self) -> None:
        try:
            with transaction.atomic():
                insert([self._outcome])
                self._written.set()
                assert self._may_commit.wait(60)
        finally:
            connection.close()

    def commit(self) -> None:
        self._may_commit.set()
        self._thread.join()


@pytest.fixture
def busy(orm: str) -> None:
    """Skips the test on SQLite: only PostgreSQL has several writers."""
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has one writer")


def last() -> int:
    return Item.objects.order_by("-pk").values_list("pk", flat=True)[0]


def test_without_items_nothing_is_settled() -> None:
    assert CommitOrder().settled() == 0


def test_everything_is_settled_while_nobody_writes(task: Task) -> None:
    order = CommitOrder()
    Writer(task, "a", 3).commit()
    order.settled()  # the mark of the first call may be older than the last commit
    assert order.settled() == last()


@pytest.mark.usefixtures("busy")
def test_the_numbers_of_the_only_open_transaction_are_not_settled(task: Task) -> None:
    order = CommitOrder()
    only = Writer(task, "only", 2)
    assert [order.settled() for _ in range(3)] == [0, 0, 0]
    only.commit()
    assert order.settled() == last()


@pytest.mark.usefixtures("busy")
def test_pages_have_an_order_of_their_own(task: Task) -> None:
    order = CommitOrder(Page)
    slow = Writer(task, "slow", 0)
    Writer(task, "fast", 3).commit()
    assert [order.settled() for _ in range(2)] == [0, 0]
    slow.commit()
    assert order.settled() == Page.objects.count() == 2


@pytest.mark.usefixtures("busy")
def test_what_is_behind_an_open_transaction_is_not_settled(task: Task) -> None:
    order = CommitOrder()
    slow = Writer(task, "slow", 2)
    Writer(task, "fast", 2).commit()
    assert [order.settled() for _ in range(3)] == [0, 0, 0]
    slow.commit()
    assert order.settled() == last()
    assert Item.objects.filter(pk__lte=last()).count() == 4


@pytest.mark.usefixtures("busy")
def test_a_transaction_that_began_first_and_takes_later_numbers(task: Task) -> None:
    order = CommitOrder()
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_current_xact_id()")
        slow = Writer(task, "slow", 2)
        insert([_outcome(task, "fast")])
    assert Item.objects.get().pk == 3
    assert [order.settled() for _ in range(3)] == [0, 0, 0]
    slow.commit()
    assert order.settled() == 3


@pytest.mark.usefixtures("busy")
def test_numbers_of_a_transaction_that_failed_hold_nobody_up(task: Task) -> None:
    order = CommitOrder()
    with transaction.atomic():
        insert([_outcome(task, "lost")])
        transaction.set_rollback(True)
    insert([_outcome(task, "kept")])
    assert order.settled() == last() == 2


@pytest.mark.usefixtures("busy")
def test_writers_that_follow_each_other_without_a_gap_do_not_hold_it_up(task: Task) -> None:
    order = CommitOrder()
    first = Writer(task, "w0", 1)
    for n in range(1, 6):
        assert order.settled() >= n - 1
        following = Writer(task, f"w{n}", 1)
        first.commit()
        first = following
    first.commit()


def _outcome(task: Task, name: str) -> Outcome:
    made = Outcome(
        name.encode().ljust(16, b"."), task.pk, "h", b"record", 1, 1, url=f"http://h/{name}"
    )
    made.results.items = [b"{}"]
    return made


@pytest.mark.usefixtures("busy")
def test_an_export_from_now_on_loses_nothing_that_is_being_written(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    Writer(task, "old", 2).commit()
    Item.objects.update(created_at="2026-01-01T00:00Z")
    before = last()
    slow = Writer(task, "slow", 2)
    Writer(task, "fast", 2).commit()
    monkeypatch.setattr(source, "LOCK_SECONDS", 0.1)
    assert source.start_of("items", "now").position == before
    monkeypatch.setattr(source, "LOCK_SECONDS", 60.0)
    monkeypatch.setattr("time.sleep", lambda seconds: slow.commit())
    assert source.start_of("items", "now").position == last()
