"""The ledger over Django, on SQLite and PostgreSQL: the first run of a request counts,
completely."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Collection, Mapping
from contextlib import closing
from functools import partial
from uuid import UUID

import psycopg2
import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from crawlframe.base.stats import PageStats
from crawlframe.frontier import Counts
from crawlframe.request.request import Admission, root_admission, unpack_admissions
from crawlframe.run.ledger import LedgerAway, LedgerRefused, Recorded, TaskSpec
from crawlframe.run.outcome import Outcome, Verdict
from crawlframe.run.participant import Participant, Participants
from crawlservice.ledger import rows
from crawlservice.ledger.participants import participants
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import Event, Item, Page, Stat, Task
from tests.crawlservice.chores import at_once

pytestmark = [pytest.mark.usefixtures("orm"), pytest.mark.databases("sqlite", "postgres")]


@pytest.fixture
def task() -> Task:
    return Task.objects.create(spider="s", arguments={"a": 1}, priority=3, seeds=b"")


def outcome(task: Task, name: str, items: int = 1, follow_ups: int = 0) -> Outcome:
    made = Outcome(
        name.encode().ljust(16, b"."), task.pk, "h", b"record", 1, 2, url=f"http://h/{name}"
    )
    made.results.items = [b'{"n":%d}' % n for n in range(items)]
    made.results.follow_ups = [
        Admission(f"{name}{n}".encode().ljust(16, b"."), n, "h", 0, b"r") for n in range(follow_ups)
    ]
    return made


def counts(na: int, nf: int, ne: int = 0) -> Counts:
    return Counts("running", na, nf, ne, 0, 0, 0, 0, 0)


def test_a_batch_is_written_whole(task: Task) -> None:
    failed = outcome(task, "c", items=0)
    failed.end(Verdict.ERROR, "timeout", "too slow")
    recorded = DjangoLedger().commit([outcome(task, "b", 2, 3), outcome(task, "a"), failed])
    assert len(recorded) == 3
    page = Page.objects.get(rid=UUID(bytes=b"b".ljust(16, b".")))
    assert (page.url, page.state, page.items, page.attempts, page.deliveries) == (
        "http://h/b", "done", 2, 1, 2,
    )  # fmt: skip
    assert list(Item.objects.filter(rid=page.rid).values_list("ordinal", "data")) == [
        (1, {"n": 1}),
        (0, {"n": 0}),
    ]
    error = Page.objects.get(state="error")
    assert (error.reason, error.detail, bytes(error.request or b"")) == (
        "timeout",
        "too slow",
        b"record",
    )


def test_the_first_run_wins_and_gives_its_follow_ups(task: Task) -> None:
    ledger = DjangoLedger()
    first, second = outcome(task, "a", 2, 3), outcome(task, "a", 5, 1)
    second.end(Verdict.ERROR, "callback")
    assert ledger.commit([first])[first.rid] == Recorded(
        False, first.results.follow_ups, 2, new=True
    )
    late = ledger.commit([second, outcome(task, "b")])[second.rid]
    assert late == Recorded(False, first.results.follow_ups, 2)
    assert Item.objects.filter(rid=UUID(bytes=first.rid)).count() == 2
    assert Page.objects.count() == 2


def test_rows_and_items_carry_the_version_of_the_run_that_won(task: Task) -> None:
    ledger = DjangoLedger()
    first, late = outcome(task, "a", 2), outcome(task, "a", 5)
    other, unknown = outcome(task, "b", 1), outcome(task, "c", 1)
    failed = outcome(task, "d", 0).end(Verdict.ERROR, "callback")
    first.version, late.version, other.version = "1f00c0ffee00", "2f00c0ffee00", "2f00+c0ffee"
    failed.version = "long" * 20 + "\0"
    ledger.commit([first])
    ledger.commit([late, other, unknown, failed])
    names = {bytes(rid.bytes)[:1]: rid for rid in Page.objects.values_list("rid", flat=True)}
    pages = dict(Page.objects.values_list("rid", "version"))
    items = set(Item.objects.values_list("rid", "version"))
    expected = {b"a": "1f00c0ffee00", b"b": "2f00+c0ffee", b"c": "", b"d": "long" * 10}
    assert {name: pages[rid] for name, rid in names.items()} == expected
    assert items == {(names[name], expected[name]) for name in (b"a", b"b", b"c")}
    assert Item.objects.count() == 4


def test_a_batch_costs_the_same_statements_however_many_versions(task: Task) -> None:
    def cost(*versions: str) -> int:
        batch = [outcome(task, f"{'-'.join(versions)}{n}", 2) for n in range(6)]
        for n, one in enumerate(batch):
            one.version = versions[n % len(versions)]
        with CaptureQueriesContext(connection) as queries:
            DjangoLedger().commit(batch)
        return len(queries)

    assert cost("v1") == cost("v1", "v2", "v3")


def test_committing_again_changes_nothing(task: Task) -> None:
    ledger = DjangoLedger()
    batch = [outcome(task, name, 2, 2) for name in "abc"]
    first, again = ledger.commit(batch), ledger.commit(batch)
    assert again == {rid: row._replace(new=False) for rid, row in first.items()}
    assert (Page.objects.count(), Item.objects.count()) == (3, 6)


def test_two_threads_with_the_same_requests_do_not_deadlock(task: Task) -> None:
    names = [f"p{n}" for n in range(40)]

    def write(order: list[str]) -> None:
        for _ in range(5):
            DjangoLedger().commit([outcome(task, name) for name in order])

    at_once(*(partial(write, order) for order in (names, names[::-1])))
    assert (Page.objects.count(), Item.objects.count()) == (40, 40)


postgres_only = pytest.mark.parametrize(
    "database", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True
)


@postgres_only
@pytest.mark.parametrize(
    ("setting", "lock", "reason"),
    [
        ("default_transaction_read_only = on", "ACCESS SHARE", "read-only transaction"),
        ("lock_timeout = '50ms'", "SHARE", "lock timeout"),
        ("statement_timeout = '50ms'", "SHARE", "statement timeout"),
    ],
)
def test_a_passing_lock_refuses_no_page(
    task: Task, orm: str, setting: str, lock: str, reason: str
) -> None:
    ledger, one = DjangoLedger(), outcome(task, "a", 2)
    with closing(psycopg2.connect(orm)) as other:
        other.cursor().execute(f"LOCK TABLE {Page._meta.db_table} IN {lock} MODE")
        with connection.cursor() as cursor:
            cursor.execute(f"SET {setting}")
        with pytest.raises(LedgerAway, match=reason):
            ledger.commit([one])
    assert ledger.commit([one])[one.rid] == Recorded(False, one.results.follow_ups, 2, new=True)
    assert (Page.objects.count(), Item.objects.count()) == (1, 2)


@postgres_only
def test_what_cannot_be_serialized_is_tried_again_and_then_read(task: Task, orm: str) -> None:
    first, second = outcome(task, "a", 2, 3), outcome(task, "a", 5, 1)
    written = threading.Event()

    def write() -> None:
        with closing(psycopg2.connect(orm)) as other, transaction.atomic():
            other.autocommit = True
            DjangoLedger().commit([first])
            written.set()
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_backend_pid()")
                ours = cursor.fetchone()
            blocked = "SELECT 1 FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid))"
            with other.cursor() as cursor:
                while cursor.execute(blocked, ours) or not cursor.fetchall():
                    time.sleep(0.01)
        connection.close()

    thread = threading.Thread(target=write)
    thread.start()
    assert written.wait(10)
    ledger = DjangoLedger()
    with connection.cursor() as cursor:
        cursor.execute("SET default_transaction_isolation = 'serializable'")
    with pytest.raises(LedgerAway, match="could not serialize access"):
        ledger.commit([second])
    thread.join()
    assert ledger.commit([second])[second.rid] == Recorded(False, first.results.follow_ups, 2)
    assert (Page.objects.count(), Item.objects.count()) == (1, 2)


def test_what_the_database_refuses_is_refused_whole(task: Task) -> None:
    if connection.vendor == "sqlite":
        bad = outcome(task, "bad")
        bad.results.items = [b"not json"]
    else:
        bad = outcome(task, "bad")
        bad.results.items = [b'"\\u0000"']
    with pytest.raises(LedgerRefused):
        DjangoLedger().commit([outcome(task, "good"), bad])
    assert Page.objects.count() == 0


def test_a_batch_of_several_statements_is_one_transaction(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "MAX_ARRAY", 1)
    bad = outcome(task, "z")
    bad.results.items = [b'"\\u0000"', b"not json"]
    with pytest.raises(LedgerRefused):
        DjangoLedger().commit([outcome(task, "a"), bad])
    assert Page.objects.count() == 0
    batch = [outcome(task, name, 2, 2) for name in "abc"]
    assert len(DjangoLedger().commit(batch)) == 3
    assert (Page.objects.count(), Item.objects.count()) == (3, 6)


def test_follow_ups_that_go_apart_are_of_the_same_transaction(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    if connection.vendor == "sqlite":
        pytest.skip("there they do not go apart")
    monkeypatch.setattr(rows, "MAX_PACKED", 1)
    monkeypatch.setattr(rows, "POSTGRES_FOLLOW_UPS", "UPDATE nowhere SET a = %s WHERE b = %s")
    one = outcome(task, "a", 2, 3)
    with pytest.raises(LedgerAway):
        DjangoLedger().commit([one])
    assert Page.objects.count() == 0
    monkeypatch.undo()
    monkeypatch.setattr(rows, "MAX_PACKED", 1)
    DjangoLedger().commit([one])
    assert unpack_admissions(Page.objects.get().follow_ups or b"") == one.results.follow_ups


def test_a_task_ends_once_and_not_early(task: Task) -> None:
    ledger = DjangoLedger()
    ledger.commit([outcome(task, "a", 2), outcome(task, "b", 1)])
    assert not ledger.tasks.finish({task.pk: counts(3, 2)})  # one is left
    assert not ledger.tasks.finish({task.pk: counts(3, 3)})  # the ledger lacks a row
    assert not ledger.tasks.finish({task.pk: counts(2, 1)})  # Redis does not know of one
    assert not ledger.tasks.finish({task.pk: counts(1, 1)})  # the ledger knows more than Redis
    assert Event.objects.count() == 0
    assert ledger.tasks.finish({task.pk: counts(2, 2)})
    assert ledger.tasks.finish({task.pk: counts(2, 2)})
    task.refresh_from_db()
    assert (task.state, task.na, task.nf, task.ne, task.items) == ("finished", 2, 2, 0, 3)
    assert task.finished_at is not None
    assert list(Event.objects.values_list("kind", flat=True)) == ["finished"]


def test_tasks_end_together_and_none_for_another(task: Task) -> None:
    ledger = DjangoLedger()
    others = [Task.objects.create(spider="shop", seeds=b"") for _ in range(3)]
    whole, cancelled, short = others
    Task.objects.filter(pk=cancelled.pk).update(state="cancelling")
    ledger.commit([outcome(task, "a", 2), outcome(whole, "b", 1), outcome(short, "c", 1)])
    ready = {one.pk: counts(1, 1) for one in (task, whole)}
    ready |= {short.pk: counts(2, 2), cancelled.pk: counts(0, 0)}
    assert ledger.tasks.finish(ready) == {task.pk, whole.pk, cancelled.pk}
    rows = Task.objects.order_by("pk").values_list("state", "nf", "items")
    assert [*rows] == [
        ("finished", 1, 2),
        ("finished", 1, 1),
        ("cancelled", 0, 0),
        ("running", 0, 0),
    ]
    kinds = Event.objects.order_by("task_id").values_list("kind", flat=True)
    assert [*kinds] == ["finished", "finished", "cancelled"]


@pytest.mark.parametrize(
    ("state", "rows", "ended"),
    [
        ("cancelling", 1, False),  # a row of a request that was done is missing
        ("cancelling", 2, True),
        ("cancelling", 3, True),  # a cancelled one had a row that Redis does not know
        ("cancelling", 5, True),
        ("running", 2, False),  # its cancel was forgotten: nothing may be missing
        ("running", 5, True),
    ],
)
def test_only_rows_of_cancelled_requests_may_be_missing(
    task: Task, state: str, rows: int, ended: bool
) -> None:
    Task.objects.update(state=state)
    ledger = DjangoLedger()
    ledger.commit([outcome(task, f"{n}") for n in range(rows)])
    known = counts(5, 2)._replace(ne=3, cancelled=3)
    assert ledger.tasks.finish({task.pk: known}) == ({task.pk} if ended else set())
    assert ledger.tasks.finish({task.pk: known}) == ({task.pk} if ended else set())
    task.refresh_from_db()
    assert (task.state not in Task.ACTIVE) == ended
    # The event of a cancelled task is written with the last of the missing rows.
    assert Event.objects.count() == (ended and state == "running")
    if ended:
        assert (task.na, task.ne, task.cancelled) == (5, 3, 3)
        assert task.unwritten == (None if state == "running" else 5 - rows)


def test_a_cancelled_task_ends_as_cancelled(task: Task) -> None:
    Task.objects.update(state="cancelling")
    assert DjangoLedger().tasks.finish({task.pk: counts(0, 0)})
    task.refresh_from_db()
    assert task.state == "cancelled"


def test_tasks_are_read(task: Task) -> None:
    spec = DjangoLedger().tasks.spec(task.pk)
    assert spec == TaskSpec(task.pk, "s", {"a": 1}, 3)
    assert DjangoLedger().tasks.spec(task.pk + 1) is None
    assert root_admission(task.pk).rid != root_admission(task.pk + 1).rid


# -- participants ---------------------------------------------------------------------------------


class Failing(Participant):
    """Writes a row, and has a defect in one of its calls. ``bad``: names it takes."""

    def __init__(self, call: str, bad: str) -> None:
        self.call, self.bad = call, bad

    takes = ("url",)

    def concerned(self, outcomes: list[Outcome]) -> list[Outcome]:
        return [o for o in outcomes if o.url.endswith(self.bad)]

    def prepare(self, outcomes: list[Outcome]) -> None:
        self._fail("prepare")

    def write(self, outcomes: list[Outcome]) -> None:
        Event.objects.create(task_id=outcomes[0].task, kind=Event.Kind.FINISHED)
        self._fail("write")

    def after(
        self, outcomes: list[Outcome], recorded: Mapping[bytes, Recorded]
    ) -> Collection[Outcome]:
        self._fail("after")
        return ()

    def _fail(self, call: str) -> None:
        if call == self.call:
            raise KeyError("defect")


def ledger_with(*more: Participant) -> DjangoLedger:
    ledger = DjangoLedger()
    ledger._participants = Participants([*ledger._participants._all, *more])
    return ledger


@pytest.mark.parametrize("call", ["prepare", "write"])
def test_a_participant_with_a_defect_takes_everything_back(task: Task, call: str) -> None:
    first, second = outcome(task, "a"), outcome(task, "b")
    first.results.stats = PageStats()
    first.results.stats.inc("seen", 1)
    with pytest.raises(LedgerRefused, match=rf"Failing.{call}: KeyError: 'defect'"):
        ledger_with(Failing(call, "b")).commit([first, second])
    found = Page.objects.count(), Item.objects.count(), Event.objects.count(), Stat.objects.count()
    assert found == (0, 0, 0, 0)


def test_a_defect_after_the_commit_takes_nothing_back(task: Task) -> None:
    one = outcome(task, "a")
    assert ledger_with(Failing("after", "a")).commit([one])[one.rid].new
    assert (Page.objects.count(), Item.objects.count(), Event.objects.count()) == (1, 1, 1)


def test_a_plain_page_costs_one_statement_and_no_transaction(task: Task) -> None:
    with CaptureQueriesContext(connection) as queries:
        DjangoLedger().commit([outcome(task, "a"), outcome(task, "b")])
    own = [one["sql"] for one in queries if "crawlservice_" in one["sql"]]
    tables = {table for sql in own for table in re.findall(r"crawlservice_\w+", sql)}
    assert tables == {"crawlservice_page", "crawlservice_item"}
    if connection.vendor == "postgresql":
        assert len(queries) == 1


def test_all_processes_have_one_order_of_participants() -> None:
    orders = [[type(one).__name__ for one in participants()._all] for _ in range(2)]
    assert orders[0] == orders[1]
    assert orders[0][-2:] == ["Budgets", "TaskClosing"]  # which closes tasks that budgets end
