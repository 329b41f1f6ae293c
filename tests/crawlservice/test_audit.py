"""Audit: good tasks pass, and every kind of damage is found and named."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from crawlframe.frontier import Frontier, TaskLimits
from crawlframe.request.request import Admission, make_rid, pack_admissions
from crawlservice.ledger.audit import audit, audit_cluster, audit_group, groups, sizes
from crawlservice.models import Event, Item, Page, Task

both = pytest.mark.databases("sqlite", "postgres")


def rid(task: Task, fingerprint: bytes) -> UUID:
    return UUID(bytes=make_rid(task.pk, fingerprint))


def test_a_good_task_has_no_problem(ended_task: Task) -> None:
    assert audit(ended_task) == []


def test_findings_of_quality_are_no_second_end(ended_task: Task) -> None:
    Event.objects.create(task=ended_task, kind=Event.Kind.QUALITY_FAILED)
    assert audit(ended_task) == []


def test_a_running_task_may_lag_behind(ended_task: Task) -> None:
    Task.objects.update(state=Task.State.RUNNING, na=0, nf=0, ne=0, items=0)
    Event.objects.all().delete()
    Page.objects.filter(rid=rid(ended_task, b"b")).delete()
    assert audit(Task.objects.get()) == []


@both
@pytest.mark.parametrize("state", [Task.State.FINISHED, Task.State.RUNNING])
def test_a_missing_item_is_found_with_its_page(ended_task: Task, state: str) -> None:
    Task.objects.update(state=state)
    Item.objects.filter(ordinal=1).delete()
    problems = audit(Task.objects.get())
    assert f"{rid(ended_task, b'a')} has 1 of 2" in problems[0]
    assert problems[0].startswith(f"task {ended_task.pk}: ")


@both
def test_an_item_too_many_is_found(ended_task: Task) -> None:
    Item.objects.create(task=ended_task, rid=rid(ended_task, b"a"), ordinal=2, data={})
    assert f"{rid(ended_task, b'a')} has 3 of 2" in audit(ended_task)[0]


@both
def test_an_item_without_a_ledger_row_is_found(ended_task: Task) -> None:
    Item.objects.create(task=ended_task, rid=rid(ended_task, b"ghost"), ordinal=0, data={})
    assert any(
        "no ledger row" in problem and str(rid(ended_task, b"ghost")) in problem
        for problem in audit(ended_task)
    )


@both
def test_an_item_of_another_tasks_page_is_found(
    ended_task: Task, add_page: Callable[..., Page]
) -> None:
    other = Task.objects.create(spider="shop", seeds=b"", state=Task.State.RUNNING)
    page = add_page(other, b"other")
    Item.objects.create(task=ended_task, rid=page.rid, ordinal=0, data={})
    assert any("no ledger row" in problem for problem in audit(ended_task))


@both
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


def test_a_wrong_counter_is_named(ended_task: Task) -> None:
    for counter in ("na", "nf", "ne", "items"):
        before = getattr(ended_task, counter)
        setattr(ended_task, counter, 7)
        (problem,) = audit(ended_task)
        assert f"counter {counter} is 7" in problem
        setattr(ended_task, counter, before)


@pytest.mark.parametrize("lost", [b"b", b"start"])
def test_a_recorded_request_that_never_ended_is_found(ended_task: Task, lost: bytes) -> None:
    Page.objects.filter(rid=rid(ended_task, lost)).delete()
    assert any(
        "never ended" in problem and str(rid(ended_task, lost)) in problem
        for problem in audit(ended_task)
    )


def test_what_the_page_limit_left_out_is_not_lost(ended_task: Task) -> None:
    left_out = Admission(make_rid(ended_task.pk, b"left out"), 0, "h", 0, b"")
    Page.objects.filter(rid=rid(ended_task, b"a")).update(follow_ups=pack_admissions([left_out]))
    assert len(audit(ended_task)) == 1
    ended_task.settings["page_limit"] = 3
    assert audit(ended_task) == []


def test_many_offenders_are_cut_short(ended_task: Task) -> None:
    for n in range(20):
        Item.objects.create(
            task=ended_task, rid=rid(ended_task, b"ghost%d" % n), ordinal=0, data={}
        )
    (problem,) = [text for text in audit(ended_task) if "no ledger row" in text]
    assert problem.endswith(" and more")
    assert problem.count("-") == 4 * 10


def test_a_row_that_nothing_led_to_is_found(
    ended_task: Task, add_page: Callable[..., Page], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawlservice.ledger.audit.PART", 1)  # several ranges of rids
    assert audit(ended_task) == []
    page = add_page(ended_task, b"stray")
    ended_task.na, ended_task.nf = 4, 3
    (problem,) = audit(ended_task)
    assert "nothing led to" in problem
    assert str(page.rid) in problem


@both
def test_items_of_another_run_are_found(ended_task: Task) -> None:
    Item.objects.filter(ordinal=1).update(version="1f00")
    (problem,) = audit(ended_task)
    assert "not of the run in the ledger" in problem
    Item.objects.filter(ordinal=1).update(version="", ordinal=5)
    (problem,) = audit(ended_task)
    assert str(rid(ended_task, b"a")) in problem


def test_an_end_recorded_too_often_early_or_never_is_found(ended_task: Task) -> None:
    for state, times in (("finished", 0), ("finished", 2), ("running", 1)):
        Task.objects.update(state=state)
        Event.objects.all().delete()
        for _ in range(times):
            Event.objects.create(task=ended_task, kind="finished")
        (problem,) = audit(Task.objects.get())
        assert problem.endswith(f"it is {state}, and its end was recorded {times} times")


def test_many_tasks_cost_the_same_number_of_queries(
    ended_task: Task, add_page: Callable[..., Page]
) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as queries:
            found = audit_group([*Task.objects.order_by("pk")])
        assert not any(problems for pk, problems in found.items() if pk != damaged)
        return len(queries)

    damaged = 0
    others = [good_task(add_page) for _ in range(2)]
    few = queries()
    others += [good_task(add_page) for _ in range(5)]
    damaged = others[3].pk
    Item.objects.filter(task=damaged).delete()
    assert queries() == few
    found = audit_group(others)
    assert [pk for pk, problems in found.items() if problems] == [damaged]
    assert all(problem.startswith(f"task {damaged}: ") for problem in found[damaged])


def good_task(add_page: Callable[..., Page]) -> Task:
    """A task with its start, which has one item."""
    task = Task.objects.create(spider="shop", state="finished", na=1, nf=1, items=1, seeds=b"")
    add_page(task, b"start", items=[{"n": 1}])
    task.seeds = pack_admissions([Admission(make_rid(task.pk, b"start"), 0, "h", 0, b"")])
    task.save()
    Event.objects.create(task=task, kind="finished")
    return task


def test_a_task_without_any_row_is_found_among_others(
    ended_task: Task, add_page: Callable[..., Page]
) -> None:
    empty = good_task(add_page)
    Page.objects.filter(task=empty).delete()
    problems = audit_group([ended_task, empty])[empty.pk]
    assert any("recorded but never ended" in problem for problem in problems)
    assert any("counter na is 1, the database has 0" in problem for problem in problems)


def test_groups_are_of_some_rows_or_some_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawlservice.ledger.audit.GROUP", 10)
    monkeypatch.setattr("crawlservice.ledger.audit.MAX_TASKS", 3)
    found = [*groups({1: 4, 2: 6, 3: 1, 4: 99, 5: 0, 6: 0, 7: 0, 8: 0})]
    assert found == [[1, 2], [3], [4], [5, 6, 7], [8]]
    assert [*groups({})] == []


def test_the_number_of_searched_rows_is_shown(ended_task: Task) -> None:
    told: list[float] = []
    audit_group([ended_task], told.append)
    assert told == sorted(told)
    assert told[-1] == 1
    assert sizes() == sizes([ended_task.pk]) == {ended_task.pk: 3}


def test_tasks_that_the_database_lost_are_found(service: Frontier) -> None:
    service.open_task(5, TaskLimits(), [])
    assert audit_cluster(service) == ["requests of tasks that the database does not know: [5]"]


def test_numbers_that_the_database_never_gave_are_found(service: Frontier) -> None:
    assert audit_cluster(service) == []
    service.leases.renew(7, 15)
    service.eras.begin(3)
    assert audit_cluster(service) == [
        "generations that the database never gave: [7]",
        "Redis holds era 3, the database knows none after 0",
    ]
