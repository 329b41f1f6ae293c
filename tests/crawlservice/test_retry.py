"""Retry: failed requests are run again, finished ones are not, and everything agrees afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone
from redis import Redis

from crawlframe.conf import Settings
from crawlframe.errors import FrontierError
from crawlframe.frontier import Frontier
from crawlframe.frontier.client.partitions import PartitionedStore
from crawlframe.request.request import make_rid, unpack_admissions
from crawlservice.connections.lookup import NotFound
from crawlservice.ledger import reconcile
from crawlservice.ledger.audit import audit
from crawlservice.ledger.recovery import renew
from crawlservice.models import Event, Finding, Item, Page, Profile, Task
from crawlservice.steward.steward import Steward
from crawlservice.tasks import retry as retry_module
from crawlservice.tasks.retry import retry
from crawlservice.tasks.submit import WrongState, submit
from tests.crawlservice.conftest import redis_at
from tests.crawlservice.graph import GraphCrawl

pytestmark = pytest.mark.usefixtures("few_chores")
both = pytest.mark.databases("sqlite", "postgres")


@pytest.fixture(params=[1, 3])
def frontier(
    request: Any, redis_client: Redis, monkeypatch: pytest.MonkeyPatch, service: Frontier
) -> Frontier:
    """The frontier used for retries, with one partition and with several."""
    frontier = Frontier(PartitionedStore(redis_client, partitions=request.param, follows=True))
    renew(frontier)
    monkeypatch.setattr(retry_module, "frontier", lambda: frontier)
    return frontier


def crawled(frontier: Frontier, **options: Any) -> GraphCrawl:
    crawl = GraphCrawl(frontier, **options)
    while crawl.work(frontier, 50):
        pass
    crawl.check_end(frontier)
    return crawl


def forget(frontier: Frontier, task: Task) -> None:
    """Makes the frontier forget the fixture's task, which was submitted and never crawled."""
    for keys in frontier.store.keys:
        frontier.store.redis.delete(keys("TASK", task.pk))


def failed(task: Task) -> dict[str, UUID]:
    rows = Page.objects.filter(task=task, state=Page.State.ERROR)
    return dict(rows.values_list("url", "rid"))


@both
def test_what_failed_is_run_again_and_the_task_ends_once_more(frontier: Frontier) -> None:
    crawl = crawled(frontier)
    before, errors = crawl.runs.copy(), failed(crawl.task)
    Finding.objects.create(task=crawl.task, monitor="errors", source="monitor", seen=0.5)
    assert Profile.objects.filter(task=crawl.task, judged=True).exists()
    assert retry(crawl.task.pk) == len(errors) > 1
    task = Task.objects.get()
    assert (task.state, task.retries, task.finished_at) == (Task.State.RUNNING, 1, None)
    assert (task.ne, task.nf) == (0, crawl.runs.total() - len(errors))
    assert failed(task) == {}
    assert not Profile.objects.exists()  # it is read again, without the failed requests
    assert not Finding.objects.exists()
    assert audit(task) == []
    Steward(Settings(), frontier).tick()
    counts = frontier.counts(task.pk)
    assert counts is not None
    assert (counts.state, counts.nr, counts.ready) == ("running", len(errors), len(errors))
    crawl.broken = False
    while crawl.work(frontier, 50):
        pass
    crawl.check_end(frontier)
    assert audit(Task.objects.get()) == []
    again = {rid for rid, runs in crawl.runs.items() if runs > before[rid] > 0}
    assert again == {rid.bytes for rid in errors.values()}


def test_only_the_named_ones_are_run_again(frontier: Frontier) -> None:
    crawl = crawled(frontier)
    name, rid = sorted(failed(crawl.task).items())[0]
    assert retry(crawl.task.pk, [rid]) == 1
    assert name not in failed(crawl.task)
    Steward(Settings(), frontier).tick()
    assert crawl.work(frontier, 50) == 1
    crawl.check_end(frontier)
    assert audit(Task.objects.get()) == []
    assert Event.objects.count() == 2


def test_a_task_with_a_page_limit_keeps_to_it(frontier: Frontier) -> None:
    crawl = GraphCrawl(frontier, page_limit=20)
    limit = 20 + 1  # the request of the root is no page
    while crawl.work(frontier, 50):
        pass
    chores = Steward(Settings(), frontier)
    chores.tick()
    retry(crawl.task.pk)
    crawl.broken = False
    chores.tick()
    while crawl.work(frontier, 50):
        pass
    chores.tick()
    task = Task.objects.get()
    assert (task.state, task.ne) == (Task.State.FINISHED, 0)
    if frontier.store.partitions == 1:  # else each partition has the limit
        assert task.na == limit
    assert audit(task) == []


def test_nothing_is_fetched_while_redis_is_brought_up_to_date(
    frontier: Frontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl = crawled(frontier)
    retry(crawl.task.pk)
    monkeypatch.setattr(reconcile, "REQUESTS_PER_STEP", 5)
    claimed: list[Any] = []
    told = 0

    def look() -> None:
        nonlocal told
        told += 1
        claimed.extend(crawl.claim(frontier, 50, 2))

    monkeypatch.setattr(Steward, "_still_here", lambda steward: look())
    Steward(Settings(), frontier).tick()
    assert told > 3
    assert claimed == []
    assert crawl.claim(frontier, 50, 2) != []


def test_a_steward_that_dies_meanwhile_is_followed_by_another(
    frontier: Frontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl = crawled(frontier)
    retry(crawl.task.pk)
    crawl.broken = False

    def die() -> None:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(reconcile, "REQUESTS_PER_STEP", 5)
        patch.setattr(Steward, "_still_here", lambda steward: die())
        chores = Steward(Settings(), frontier)
        with pytest.raises(SystemExit):
            chores.tick()
    chores.resign()
    other = Steward(Settings(), frontier)
    while Task.objects.get().state == Task.State.RUNNING:
        other.tick()
        while crawl.work(frontier, 50, 2):
            pass
    assert failed(crawl.task) == {}
    assert audit(Task.objects.get()) == []


@both
def test_what_an_errback_led_to_stays_recorded(
    frontier: Frontier, ended_task: Task, add_page: Callable[..., Page]
) -> None:
    forget(frontier, ended_task)
    Page.objects.filter(url__endswith="/b").delete()
    add_page(
        ended_task, b"b", state=Page.State.ERROR, reason="http_404", items=[{"failed": 1}],
        follow_ups=[b"c"],
    )  # fmt: skip
    add_page(ended_task, b"c")
    Task.objects.update(na=4, nf=3, ne=1, items=3)
    assert audit(Task.objects.get()) == []
    assert retry(ended_task.pk) == 1
    task = Task.objects.get()
    rids = [admission.rid for admission in unpack_admissions(task.seeds)]
    assert make_rid(task.pk, b"c") in rids
    assert task.items == Item.objects.count() == 2
    # The page works now, and does not lead to that one any more.
    add_page(task, b"b")
    Event.objects.create(task=task, kind="finished")
    Task.objects.update(state="finished", finished_at=timezone.now(), nf=4)
    assert audit(Task.objects.get()) == []


def test_a_task_that_redis_has_not_forgotten_yet(frontier: Frontier) -> None:
    """The process that ended it died before it updated Redis."""
    crawl = crawled(frontier)
    reconcile.Reconciliation(crawl.task, frontier).run()
    counts = frontier.counts(crawl.task.pk)
    assert counts is not None
    assert counts.nr == 0
    retry(crawl.task.pk)
    assert frontier.counts(crawl.task.pk) is None
    Steward(Settings(), frontier).tick()
    assert crawl.work(frontier, 50) > 1


def test_what_cannot_be_retried(published: Frontier, ended_task: Task) -> None:
    def unchanged() -> bool:
        rows = Task.objects.filter(pk=ended_task.pk, state="finished", retries=0)
        return rows.exists() and Page.objects.count() == 3

    forget(published, ended_task)
    running = submit("shop", {"city": "Ulm"})
    with pytest.raises(WrongState, match="is running and cannot be retried"):
        retry(running.pk)
    with pytest.raises(NotFound):
        retry(4711)
    done = Page.objects.get(url__endswith="/a")
    with pytest.raises(WrongState, match="nothing to retry: none of the named"):
        retry(ended_task.pk, [done.rid])
    with redis_at("redis://127.0.0.1:1/0"), pytest.raises(FrontierError, match="Nothing was"):
        retry(ended_task.pk)
    assert unchanged()
    assert audit(ended_task) == []
    retry(ended_task.pk)
    with pytest.raises(WrongState, match="is running"):
        retry(ended_task.pk)
