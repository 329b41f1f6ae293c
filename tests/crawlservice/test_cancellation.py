"""Settlement: a cancelled task ends at once, and its rows follow, whatever happens in between."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

import pytest
from django.db import connection
from redis import Redis

from crawlframe.conf import Settings
from crawlframe.errors import MissingCode
from crawlframe.frontier import Frontier, TaskLimits
from crawlframe.frontier.client.partitions import PartitionedStore
from crawlframe.request.request import Admission, Request, make_rid, pack_admissions, root_admission
from crawlframe.run.ledger import LedgerAway
from crawlservice.ledger import cancellation
from crawlservice.ledger.audit import audit
from crawlservice.ledger.cancellation import KnownRequests, Settler, settle
from crawlservice.ledger.recovery import renew
from crawlservice.models import Event, Item, Page, Task
from crawlservice.steward.steward import Steward
from crawlservice.tasks import retry as retry_module
from crawlservice.tasks.removal import _thin_out
from crawlservice.tasks.retry import retry
from crawlservice.tasks.submit import WrongState
from tests.crawlservice.chores import work_of
from tests.crawlservice.graph import GraphCrawl
from tests.protocol.real import fault

pytestmark = [pytest.mark.usefixtures("few_chores"), pytest.mark.databases("sqlite", "postgres")]

ENOUGH = 60.0  # seconds: a whole settlement, however busy the machine is


@pytest.fixture
def frontier(redis_client: Redis, monkeypatch: pytest.MonkeyPatch) -> Frontier:
    """Frontiers with one partition beside SQLite, and with several beside PostgreSQL."""
    partitions = 1 if connection.vendor == "sqlite" else 3
    frontier = Frontier(PartitionedStore(redis_client, partitions=partitions, follows=True))
    renew(frontier)
    monkeypatch.setattr(retry_module, "frontier", lambda: frontier)
    return frontier


@pytest.fixture
def one_partition(redis_client: Redis) -> Frontier:
    frontier = Frontier(PartitionedStore(redis_client, follows=True))
    renew(frontier)
    return frontier


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cancellation, "REQUESTS_PER_STEP", 7)
    monkeypatch.setattr(cancellation, "LISTS", 3)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps stewards from settling anything."""
    monkeypatch.setattr("crawlservice.ledger.chores.Settler", Idle)


class Idle(Settler):
    def tick(self, seconds: float = 0) -> None: ...


def cancel(crawl: GraphCrawl, frontier: Frontier) -> None:
    Task.objects.filter(pk=crawl.task.pk).update(state=Task.State.CANCELLING)
    frontier.cancel(crawl.task.pk)


def end(frontier: Frontier) -> Task:
    """Runs two rounds: the first aligns Redis, the second ends the task."""
    steward = Steward(Settings(), frontier)
    steward.tick()
    steward.tick()
    steward.resign()
    return Task.objects.get()


def check(task: Task, frontier: Frontier) -> None:
    """Checks that it ended once, with all its rows and matching numbers."""
    assert (task.state, task.unwritten) == (Task.State.CANCELLED, None)
    rows = Page.objects.filter(task=task)
    assert (task.na, task.nf + task.ne) == (rows.count(), task.na)
    assert task.cancelled == rows.filter(reason="cancelled").count()
    assert task.items == Item.objects.filter(task=task).count()
    assert audit(task) == []
    assert [*Event.objects.values_list("kind", flat=True)] == ["cancelled"]
    assert frontier.open_tasks() == []
    assert frontier.audit() == []


def test_it_ends_at_once_and_its_rows_follow(frontier: Frontier, slow: None) -> None:
    crawl = GraphCrawl(frontier)
    crawl.work(frontier, 1)
    crawl.work(frontier, 2)
    cancel(crawl, frontier)
    assert crawl.claim(frontier, 50) == []
    task = end(frontier)
    numbers = (task.state, task.na, task.nf, task.ne, task.cancelled, task.unwritten)
    assert numbers == (Task.State.CANCELLED, 7, 3, 4, 4, 4)
    assert task.items == 6
    assert frontier.open_tasks() == []
    assert Page.objects.count() == 3
    assert audit(task) == []  # rows that are known to be missing are no problem
    assert not Event.objects.exists()  # receivers of its end can read all of its rows
    assert [*settle(task)]
    check(Task.objects.get(), frontier)
    assert {*Page.objects.filter(state="error").values_list("reason", flat=True)} == {"cancelled"}


def test_what_is_in_flight_goes_on_and_what_it_finds_is_cancelled(frontier: Frontier) -> None:
    crawl = GraphCrawl(frontier)
    crawl.work(frontier, 1)
    held = crawl.claim(frontier, 2)
    cancel(crawl, frontier)
    assert end(frontier).state == Task.State.CANCELLING
    frontier.complete(crawl.commit(held))
    task = end(frontier)
    assert (task.nf, task.cancelled) == (3, 4)
    check(task, frontier)


def test_no_more_rows_than_the_page_limit_allows(frontier: Frontier) -> None:
    crawl = GraphCrawl(frontier, page_limit=20)
    while Page.objects.count() < 15:
        crawl.work(frontier, 5)
    counts = frontier.counts(crawl.task.pk)
    assert counts is not None
    cancel(crawl, frontier)
    task = end(frontier)
    assert task.na == counts.na
    check(task, frontier)


def test_a_row_that_redis_does_not_know(one_partition: Frontier) -> None:
    """The worker died after its commit, and the task was cancelled: the row counts."""
    frontier = one_partition
    crawl = GraphCrawl(frontier)
    crawl.work(frontier, 1)
    crawl.commit(crawl.claim(frontier, 2))
    frontier.leases.replay(1)
    cancel(crawl, frontier)
    task = end(frontier)
    assert (task.nf, task.cancelled) == (3, 4)
    check(task, frontier)


def test_a_worker_that_was_taken_for_dead_commits_meanwhile(
    one_partition: Frontier, slow: None
) -> None:
    frontier = one_partition
    crawl = GraphCrawl(frontier)
    crawl.work(frontier, 1)
    early, late = crawl.claim(frontier, 2)
    frontier.leases.replay(1)
    cancel(crawl, frontier)
    task = end(frontier)
    steps = settle(task)
    crawl.commit([early])
    next(steps)
    crawl.commit([late])
    assert [*steps] != []
    check(Task.objects.get(), frontier)


def test_a_row_that_comes_behind_the_walk(
    one_partition: Frontier, slow: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a transaction that got its number long before it ended."""
    monkeypatch.setattr(cancellation, "REQUESTS_PER_STEP", 1)
    frontier = one_partition
    crawl = GraphCrawl(frontier)
    crawl.work(frontier, 1)
    (late,) = (claimed for claimed in crawl.claim(frontier, 2) if claimed.record == b"2")
    frontier.leases.replay(1)
    cancel(crawl, frontier)
    task = end(frontier)
    Page.objects.update(id=1000)
    steps = settle(task)
    next(steps)
    next(steps)  # the only row that leads to others was read
    crawl.commit([late])
    Page.objects.filter(rid=UUID(bytes=late.rid)).update(id=1)
    assert [*steps]
    assert Task.objects.get().unwritten is not None
    Settler().tick(ENOUGH)
    check(Task.objects.get(), frontier)


def test_settling_goes_on_where_another_was_broken_off(frontier: Frontier, slow: None) -> None:
    crawl = GraphCrawl(frontier)
    for n in (1, 2, 4, 8):
        crawl.work(frontier, n)
    cancel(crawl, frontier)
    task = end(frontier)
    before = task.unwritten
    assert before is not None
    first, second = settle(task), settle(task)
    next(second)
    while Page.objects.count() == task.na - before:
        next(first)
    rows = Page.objects.count()
    assert Task.objects.get().unwritten == task.na - rows < before
    with fault("commit.before:1:error"), pytest.raises(LedgerAway):
        Settler().tick(ENOUGH)
    assert Page.objects.count() == rows
    Settler().tick(ENOUGH)
    check(Task.objects.get(), frontier)
    assert [*second] == []


def test_a_retry_waits_for_the_rows_and_fetches_the_rest(frontier: Frontier, slow: None) -> None:
    crawl = GraphCrawl(frontier)
    crawl.work(frontier, 1)
    cancel(crawl, frontier)
    task = end(frontier)
    with pytest.raises(WrongState, match=r"is cancelled, and 2 of its 3 requests are still to be"):
        retry(task.pk)
    assert [*settle(task)]
    assert retry(task.pk) == 2
    task = Task.objects.get()
    assert (task.state, task.ne, task.cancelled) == (Task.State.RUNNING, 0, 0)
    Steward(Settings(), frontier).tick()
    while crawl.work(frontier, 50):
        pass
    crawl.check_end(frontier)
    assert audit(Task.objects.get()) == []
    assert set(crawl.runs.values()) == {1}


@pytest.mark.parametrize("leads_anew", [False, True])
def test_a_walk_from_before_a_retry_ends_nothing(
    one_partition: Frontier, monkeypatch: pytest.MonkeyPatch, leads_anew: bool
) -> None:
    """A steward stops in the middle of a walk, another finishes it after a retry and a cancel."""
    monkeypatch.setattr(cancellation, "REQUESTS_PER_STEP", 1)
    frontier = one_partition
    crawl = GraphCrawl(frontier)
    crawl.work(frontier, 1)
    cancel(crawl, frontier)
    with monkeypatch.context() as slow:
        slow.setattr("crawlservice.ledger.chores.Settler", Idle)
        task = end(frontier)
    stale = settle(task)
    while Task.objects.get().unwritten:
        next(stale)
    assert [*settle(task)]
    assert retry(task.pk) == 2
    steward = Steward(Settings(), frontier)
    steward.tick()
    steward.resign()
    cancel(crawl, frontier)
    with monkeypatch.context() as slow:
        slow.setattr("crawlservice.ledger.chores.Settler", Idle)
        assert end(frontier).unwritten == 2
    steward = Steward(Settings(), frontier)
    settler = work_of(steward, "cancelled requests", Settler)
    settler._steps = stale
    if leads_anew:
        steward.tick()
    else:
        settler.tick()
    task = Task.objects.get()
    assert (task.unwritten, task.cancelled, Page.objects.count()) == (None, 2, 3)
    assert audit(task) == []


def test_a_new_era_fetches_nothing_of_it(frontier: Frontier, slow: None) -> None:
    """The process that ended it died before Redis forgot it, and Redis went back to a time when it
    was running."""
    crawl = GraphCrawl(frontier)
    crawl.work(frontier, 1)
    Task.objects.update(state=Task.State.CANCELLING)
    frontier.cancel(crawl.task.pk)
    task = end(frontier)
    frontier.open_task(task.pk, TaskLimits(), [crawl.admission(n) for n in range(3)])
    renew(frontier)
    assert crawl.claim(frontier, 50) == []
    assert end(frontier).unwritten == 2
    assert frontier.open_tasks() == []
    assert [*settle(task)]
    check(Task.objects.get(), frontier)


@pytest.mark.parametrize("when", ["before", "after"])
def test_redis_is_emptied(frontier: Frontier, when: str) -> None:
    crawl = GraphCrawl(frontier)
    crawl.work(frontier, 1)
    if when == "before":
        frontier.store.redis.flushall()
    Task.objects.update(state=Task.State.CANCELLING)
    if when == "after":
        frontier.cancel(crawl.task.pk)
        frontier.store.redis.flushall()
    renew(frontier)
    task = end(frontier)
    assert (task.nf, task.cancelled) == (1, 2)
    check(task, frontier)


def test_a_database_that_forgot_the_cancel(frontier: Frontier) -> None:
    """A standby that lagged behind took over: the task runs again, with everything that Redis had
    dropped."""
    crawl = GraphCrawl(frontier)
    crawl.work(frontier, 1)
    cancel(crawl, frontier)
    Task.objects.update(state=Task.State.RUNNING)
    assert end(frontier).state == Task.State.RUNNING
    while crawl.work(frontier, 50, generation=2):
        pass
    crawl.check_end(frontier)
    assert audit(Task.objects.get()) == []


def test_a_task_that_redis_never_knew(frontier: Frontier) -> None:
    crawl = GraphCrawl(frontier)
    for keys in frontier.store.keys:
        for key in frontier.store.redis.scan_iter(match=keys.pattern("*")):
            if b"era" not in key:
                frontier.store.redis.delete(key)
    Task.objects.update(state=Task.State.CANCELLING)
    task = end(frontier)
    assert (crawl.runs.total(), task.na, task.cancelled) == (0, 1, 1)
    check(task, frontier)


def test_rows_of_a_task_that_is_being_removed_do_not_come_back(
    one_partition: Frontier, slow: None
) -> None:
    crawl = GraphCrawl(one_partition)
    crawl.work(one_partition, 1)
    cancel(crawl, one_partition)
    task = end(one_partition)
    steps = settle(task)
    [*_thin_out(task.pk)]
    assert [*steps] == []
    Settler().tick(ENOUGH)
    assert Page.objects.count() == 0


def test_a_row_says_what_was_to_be_fetched(one_partition: Frontier) -> None:
    task = Task.objects.create(
        spider="shop", settings={}, seeds=b"", state="cancelled", outcome="cancelled", unwritten=2
    )
    request = Request("http://shop.example/a", "listing", depth=3)
    rid = make_rid(task.pk, request.fingerprint())
    page = Admission(rid, 0, "shop.example", 0, request.encode())
    task.seeds = pack_admissions([root_admission(task.pk), page, page])
    task.settings = {"delay": 0, "concurrency": 1, "page_limit": 0}
    task.save()
    Settler().tick(ENOUGH)
    rows = Page.objects.order_by("pk").values_list("url", "callback", "depth", "reason", "version")
    assert [*rows] == [
        ("start:", "start", 0, "cancelled", ""),
        ("http://shop.example/a", "listing", 3, "cancelled", ""),
    ]
    row = Page.objects.get(rid=UUID(bytes=rid))
    assert bytes(row.request or b"") == request.encode()


@dataclass
class House:
    price: int


def test_a_row_whose_values_need_the_classes_of_a_spider(one_partition: Frontier) -> None:
    request = Request("http://shop.example/a", "offer", cb_kwargs={"house": House(1)}, depth=2)
    record = request.encode().replace(b"House", b"Hovel")
    with pytest.raises(MissingCode):
        Request.decode(record)
    rid = make_rid(1, request.fingerprint())
    Task.objects.create(
        spider="shop",
        settings={"delay": 0, "concurrency": 1, "page_limit": 0},
        seeds=pack_admissions([Admission(rid, 0, "shop.example", 0, record)]),
        state="cancelled",
        outcome="cancelled",
        unwritten=1,
    )
    Settler().tick(ENOUGH)
    row = Page.objects.get()
    told = (row.url, row.callback, row.depth, row.reason, row.detail)
    assert told == ("http://shop.example/a", "offer", 2, "cancelled", "")


def test_no_batch_is_larger_than_one_transaction_takes(one_partition: Frontier) -> None:
    crawl = GraphCrawl(one_partition)
    seeds = [crawl.admission(n) for n in range(40)]
    crawl.task.seeds = pack_admissions(seeds)
    batches = [*KnownRequests(crawl.task).batches()]
    assert [len(batch) for batch in batches] == [7] * 5 + [5]
    assert [admission for batch in batches for admission in batch] == seeds
