"""Audit: good tasks pass, and every kind of damage is found and named."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from crawlframe.request import make_rid
from crawlservice.audit import audit
from crawlservice.models import Item, Page, Task


def rid(task: Task, fingerprint: bytes) -> UUID:
    return UUID(bytes=make_rid(task.pk, fingerprint))


def test_a_good_task_has_no_problem(ended_task: Task) -> None:
    assert audit(ended_task) == []


def test_a_running_task_may_lag_behind(ended_task: Task) -> None:
    Task.objects.update(state=Task.State.RUNNING, na=0, nf=0, ne=0, items=0)
    Page.objects.filter(rid=rid(ended_task, b"b")).delete()
    assert audit(Task.objects.get()) == []


@pytest.mark.parametrize("state", [Task.State.FINISHED, Task.State.RUNNING])
def test_a_missing_item_is_found_with_its_page(ended_task: Task, state: str) -> None:
    Task.objects.update(state=state)
    Item.objects.filter(ordinal=1).delete()
    problems = audit(Task.objects.get())
    assert f"{rid(ended_task, b'a')} has 1 of 2" in problems[0]
    assert problems[0].startswith(f"task {ended_task.pk}: ")


def test_an_item_too_many_is_found(ended_task: Task) -> None:
    Item.objects.create(task=ended_task, rid=rid(ended_task, b"a"), ordinal=2, data={})
    assert f"{rid(ended_task, b'a')} has 3 of 2" in audit(ended_task)[0]


def test_an_item_without_a_ledger_row_is_found(ended_task: Task) -> None:
    Item.objects.create(task=ended_task, rid=rid(ended_task, b"ghost"), ordinal=0, data={})
    assert any(
        "no ledger row" in problem and str(rid(ended_task, b"ghost")) in problem
        for problem in audit(ended_task)
    )


def test_an_item_of_another_tasks_page_is_found(
    ended_task: Task, add_page: Callable[..., Page]
) -> None:
    other = Task.objects.create(spider="shop", seeds=b"", state=Task.State.RUNNING)
    page = add_page(other, b"other")
    Item.objects.create(task=ended_task, rid=page.rid, ordinal=0, data={})
    assert any("no ledger row" in problem for problem in audit(ended_task))


def test_the_items_of_a_page_are_found_by_its_rid_alone(ended_task: Task) -> None:
    """SQLite would walk all items of the task for each page."""
    with CaptureQueriesContext(connection) as queries:
        audit(ended_task)
    (query,) = [query["sql"] for query in queries if 'COUNT(U0."id")' in query["sql"]]
    assert 'U0."task_id"' not in query
    if connection.vendor != "sqlite":
        return  # its plan depends on how many rows there are
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {query}")
        steps = [step for *_, step in cursor.fetchall() if "U0" in step]
    assert steps
    assert all(step.endswith("(rid=?)") for step in steps)


@pytest.mark.parametrize("counter", ["na", "nf", "ne", "items"])
def test_a_wrong_counter_is_named(ended_task: Task, counter: str) -> None:
    setattr(ended_task, counter, 7)
    (problem,) = audit(ended_task)
    assert f"counter {counter} is 7" in problem


@pytest.mark.parametrize("lost", [b"b", b"start"])
def test_a_recorded_request_that_never_ended_is_found(ended_task: Task, lost: bytes) -> None:
    Page.objects.filter(rid=rid(ended_task, lost)).delete()
    assert any(
        "never ended" in problem and str(rid(ended_task, lost)) in problem
        for problem in audit(ended_task)
    )


def test_what_the_page_limit_left_out_is_not_lost(
    ended_task: Task, add_page: Callable[..., Page]
) -> None:
    add_page(ended_task, b"c", follow_ups=[b"left out"])
    ended_task.na, ended_task.nf = 4, 3
    assert len(audit(ended_task)) == 1
    ended_task.settings["page_limit"] = 4
    assert audit(ended_task) == []


def test_many_offenders_are_cut_short(ended_task: Task) -> None:
    for n in range(20):
        Item.objects.create(
            task=ended_task, rid=rid(ended_task, b"ghost%d" % n), ordinal=0, data={}
        )
    (problem,) = [text for text in audit(ended_task) if "no ledger row" in text]
    assert problem.endswith(" and more")
    assert problem.count("-") == 4 * 10
