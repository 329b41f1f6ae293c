"""The last request of a task, in the ledger: it comes once, after all others, whatever is lost; and
how it changes the task's outcome."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from redis import Redis

from crawlframe.conf import Settings
from crawlframe.frontier import Counts, Frontier
from crawlframe.frontier.client.partitions import PartitionedStore
from crawlframe.node.task_finisher import TaskFinisher
from crawlframe.request.request import (
    END_URL,
    ROOT_URL,
    Request,
    end_admission,
    end_rid,
    root_admission,
    unpack_admissions,
)
from crawlframe.run.outcome import Outcome, Verdict
from crawlframe.spider.spider import SpiderInfo
from crawlservice.ledger.audit import audit
from crawlservice.ledger.recovery import renew
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import Item, Page, Task
from crawlservice.steward.steward import Steward
from crawlservice.tasks import retry as retry_module
from crawlservice.tasks.retry import retry
from crawlservice.tasks.stored_limits import limits_of
from crawlservice.tasks.submit import cancel, submit
from tests.crawlservice.graph import GraphCrawl
from tests.frontier.snapshot import Snapshot

pytestmark = pytest.mark.usefixtures("few_chores")
ULM = {"city": "Ulm"}


@pytest.fixture(params=[1, 3])
def frontier(request: Any, redis_client: Redis, service: Frontier) -> Frontier:
    """The frontier of a steward."""
    frontier = Frontier(PartitionedStore(redis_client, partitions=request.param, follows=True))
    renew(frontier)
    return frontier


@pytest.fixture
def steward(frontier: Frontier) -> Steward:
    return Steward(Settings(partitions=frontier.store.partitions), frontier)


@pytest.fixture
def ending(published: Frontier, shop: SpiderInfo) -> SpiderInfo:
    """The spider of the fixtures, with ``closed``."""
    info = replace(shop, ends=True)
    published.spiders.publish([info])
    return info


def pages_done(crawl: GraphCrawl, frontier: Frontier, n: int = 50) -> None:
    while crawl.work(frontier, n):
        pass


def test_a_task_names_it_from_the_start(ending: SpiderInfo) -> None:
    task = submit("shop", ULM, priority=7)
    row = Task.objects.get(pk=task.pk)
    assert row.ends
    assert unpack_admissions(row.seeds) == [root_admission(task.pk, 7), end_admission(task.pk, 7)]
    assert limits_of(row).page_limit == 102
    request = Request.decode(end_admission(task.pk).record)
    assert (request.url, request.callback) == ("end:", "closed")


def test_a_task_whose_spider_has_no_closed_has_none(published: Frontier) -> None:
    task = submit("shop", ULM)
    assert not task.ends
    assert unpack_admissions(task.seeds) == [root_admission(task.pk, 0)]
    assert limits_of(task).page_limit == 101


def test_a_worker_lets_it_go_and_ends_the_task(redis_client: Redis) -> None:
    frontier = Frontier(PartitionedStore(redis_client, follows=True))
    renew(frontier)
    crawl = GraphCrawl(frontier, ends=True)
    endings = TaskFinisher(frontier, DjangoLedger())
    pages_done(crawl, frontier)
    endings.add([crawl.task.pk])
    endings.end(time.monotonic())
    assert Task.objects.get().state == "running"
    assert crawl.work(frontier, 9) == 1
    crawl.check_end(frontier)
    assert audit(Task.objects.get()) == []


def test_a_steward_lets_it_go_when_nobody_else_did(frontier: Frontier, steward: Steward) -> None:
    crawl = GraphCrawl(frontier, ends=True)
    for _ in range(3):
        steward.tick()
        crawl.work(frontier, 3)
    pages_done(crawl, frontier)
    steward.tick()
    assert crawl.work(frontier, 9) == 1
    crawl.check_end(frontier)
    assert crawl.runs[end_rid(crawl.task.pk)] == 1


def test_with_partitions_it_does_not_go_before_what_was_lost(
    redis_client: Redis, frontier: Frontier, steward: Steward
) -> None:
    """The counters agree, and a follow-up of a completed page is missing."""
    crawl = GraphCrawl(frontier, ends=True)
    pages_done(crawl, frontier, 2)
    renew(frontier, mistrust="a test says so")
    held = crawl.claim(frontier, 50)
    assert held == []
    steward.tick()
    assert crawl.work(frontier, 9) == 1


@pytest.mark.parametrize("when", ["early", "held", "gone", "recorded"])
@pytest.mark.parametrize("loss", ["empty", "older"])
def test_it_comes_back_after_a_loss_and_not_too_early(
    redis_client: Redis, frontier: Frontier, steward: Steward, when: str, loss: str
) -> None:
    crawl = GraphCrawl(frontier, ends=True)
    crawl.work(frontier, 2)
    copy = Snapshot(redis_client)
    if when == "early":
        crawl.work(frontier, 2)
    else:
        pages_done(crawl, frontier)
    if when in ("gone", "recorded"):
        steward.tick()
        last = crawl.claim(frontier, 9)
        assert [request.rid for request in last] == [end_rid(crawl.task.pk)]
        if when == "recorded":
            crawl.commit(last)
    redis_client.flushall()
    if loss == "older":
        copy.back()
    renew(frontier)
    crawl._sequence = 0
    for _ in range(200):
        crawl.work(frontier, 9, generation=2)
        steward.tick()
        if Task.objects.get().state == "finished":
            break
    assert Page.objects.filter(url=END_URL).count() == 1
    assert audit(Task.objects.get()) == []
    assert frontier.audit() == []


@pytest.mark.parametrize("rids", [None, "some"])
def test_a_retry_runs_it_once_more(
    frontier: Frontier, steward: Steward, monkeypatch: pytest.MonkeyPatch, rids: str | None
) -> None:
    monkeypatch.setattr(retry_module, "frontier", lambda: frontier)
    crawl = GraphCrawl(frontier, ends=True)
    pages_done(crawl, frontier)
    steward.tick()
    crawl.work(frontier, 9)
    crawl.check_end(frontier)
    errors = Page.objects.filter(state="error")
    expected = errors.count()
    chosen = None if rids is None else [*errors.values_list("rid", flat=True)]
    assert retry(crawl.task.pk, chosen) == expected
    assert not Page.objects.filter(url=END_URL).exists()
    crawl.broken = False
    for _ in range(100):
        steward.tick()
        crawl.work(frontier, 9)
        if not frontier.is_open(crawl.task.pk) and Page.objects.filter(url=END_URL).exists():
            break
    task = Task.objects.get()
    assert (task.state, task.ne) == ("finished", 0)
    assert crawl.runs[end_rid(task.pk)] == 2
    assert audit(task) == []


def test_a_cancelled_task_has_it_too(
    frontier: Frontier, steward: Steward, ending: SpiderInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawlservice.tasks.submit.frontier", lambda: frontier)
    task = submit("shop", ULM)
    cancel(task.pk)
    steward.tick()
    (last,) = frontier.claim(1, 1, 9).requests
    assert last.rid == end_rid(task.pk)
    ledger = DjangoLedger()
    summary = ledger.tasks.summary(task.pk, frontier.counts(task.pk) or pytest.fail("it is gone"))
    assert summary is not None
    assert (summary.outcome, summary.cancelled, summary.requests) == ("cancelled", 1, 1)
    outcome = Outcome(last.rid, task.pk, last.host, last.record, 0, 0, url=END_URL)
    frontier.complete([*_completions(ledger, outcome)])
    steward.tick()
    task.refresh_from_db()
    assert (task.state, task.na, task.nf, task.cancelled) == ("cancelled", 2, 1, 1)
    steward.tick()
    task.refresh_from_db()
    assert task.unwritten is None
    assert audit(task) == []


def _completions(ledger: DjangoLedger, outcome: Outcome) -> Any:
    from crawlframe.frontier import Completion

    row = ledger.commit([outcome])[outcome.rid]
    yield Completion(outcome.rid, outcome.task, outcome.host, row.failed, row.follow_ups)


@pytest.fixture
def ended(ending: SpiderInfo, add_page: Callable[..., Page]) -> Callable[..., Task]:
    """A task that has ended: ``ended(pages=[(error, items), ...], last="the exception")``."""

    def run(pages: list[tuple[str, int]], last: str = "", start: str = "", items: int = 0) -> Task:
        task = submit("shop", ULM)
        error = {"state": "error", "reason": "callback"}
        add_page(task, b"start", url=ROOT_URL, **(error if start else {}), detail=f"Trace\n{start}")
        for n, (reason, found) in enumerate(pages):
            state = "error" if reason else "done"
            add_page(task, b"%d" % n, [{}] * found, depth=0, reason=reason, state=state)
        add_page(
            task, b"end", [{}] * items, url=END_URL, **(error if last else {}),
            detail=f"Traceback\n{last}",
        )  # fmt: skip
        ne = bool(start) + bool(last) + sum(bool(reason) for reason, _ in pages)
        na = 2 + len(pages)
        counts = Counts("running", na, na - ne, ne, 0, 0, 0, 0, 0)
        assert DjangoLedger().tasks.finish({task.pk: counts}) == {task.pk}
        task.refresh_from_db()
        return task

    return run


@pytest.mark.parametrize(
    ("pages", "options", "outcome", "reason"),
    [
        ([("", 1)], {}, "finished", ""),
        (
            [("", 1)],
            {"last": "KeyError: 'x'"},
            "finished_with_errors",
            "closed failed: KeyError: 'x'",
        ),
        ([], {"start": "KeyError: 'y'"}, "failed", "start failed: KeyError: 'y'"),
        ([], {}, "failed", "start led to no request; check that its URLs are in allowed_domains"),
        (
            [],
            {"items": 3},
            "failed",
            "start led to no request; check that its URLs are in allowed_domains",
        ),
        (
            [("", 1)] * 3 + [("timeout", 0)],
            {"last": "KeyError: 'x'"},
            "finished_with_errors",
            "1 of 4 pages ended in error, all timeout; closed failed: KeyError: 'x'",
        ),
        (
            [("", 1)] + [("timeout", 0)] * 2,
            {},
            "failed",
            "2 of 3 pages ended in error, all timeout",
        ),
    ],
)
def test_how_a_task_ended_is_judged_without_it(
    ended: Callable[..., Task], pages: Any, options: Any, outcome: str, reason: str
) -> None:
    task = ended(pages, **options)
    assert (task.outcome, task.reason) == (outcome, reason)
    assert task.na == len(pages) + 2


def test_its_items_do_not_make_a_run_without_items_look_fine(ended: Callable[..., Task]) -> None:
    assert ended([("", 2)], items=1).outcome == "finished"
    task = ended([("", 0)], items=1)
    assert (task.outcome, task.items) == ("failed", 1)
    assert "there are no items" in task.reason


def test_a_summary_says_what_the_end_will_say(
    ending: SpiderInfo, add_page: Callable[..., Page]
) -> None:
    task = submit("shop", ULM)
    add_page(task, b"start", url=ROOT_URL)
    ledger = DjangoLedger()
    one = Outcome(b"1" * 16, task.pk, "h", b"r", 0, 0)
    one.results.items = [b"{}", b"{}"]
    other = Outcome(b"2" * 16, task.pk, "h", b"r", 0, 0).end(Verdict.ERROR, "timeout")
    ledger.commit([one, other])
    counts = Counts("running", 4, 2, 1, 0, 0, 0, 1, 0, items=2)
    summary = ledger.tasks.summary(task.pk, counts)
    assert summary is not None
    assert summary._replace(started_at=None, finished_at=None)._asdict() == {  # type: ignore[arg-type]
        "task": task.pk, "spider": "shop", "arguments": {"city": "Ulm"},
        "outcome": "finished_with_errors",
        "reason": "1 of 2 pages ended in error, all timeout",
        "started_at": None, "finished_at": None,
        "requests": 3, "done": 2, "errors": 1, "cancelled": 0, "excluded": 0, "items": 2,
        "stats": {}, "maxima": {},
    }  # fmt: skip
    assert summary.started_at <= summary.finished_at
    assert ledger.tasks.summary(task.pk + 1, counts) is None
    assert Item.objects.count() == 2
