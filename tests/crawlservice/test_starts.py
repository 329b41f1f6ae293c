"""Parts of a start: written once, known to everything that must know all requests of a task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from redis import Redis

from crawlframe.errors import FrontierError
from crawlframe.frontier import Counts, Frontier, GivenBack
from crawlframe.frontier.client.partitions import PartitionedStore
from crawlframe.frontier.frontier import BLAMED
from crawlframe.request.request import (
    ROOT_URL,
    Admission,
    Request,
    make_rid,
    pack_admissions,
    root_admission,
)
from crawlframe.run.ledger import LedgerRefused, StartPart
from crawlservice.ledger import starts
from crawlservice.ledger.audit import audit, audit_group
from crawlservice.ledger.cancellation import settle
from crawlservice.ledger.reconcile import Reconciliation
from crawlservice.ledger.recovery import renew
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import Page, Task
from crawlservice.models import StartPart as Row
from crawlservice.tasks.progress.progress import yielded
from crawlservice.tasks.removal import remove
from crawlservice.tasks.submit import submit
from tests.crawlservice.programs import person, program
from tests.crawlservice.web import login
from tests.frontier.bench import Resending

both = pytest.mark.databases("sqlite", "postgres")

SIZE = 20  # requests of a part


@pytest.fixture(params=[1, 3])
def frontier(request: Any, redis_client: Redis, service: Frontier) -> Frontier:
    frontier = Frontier(Resending(redis_client, partitions=request.param, follows=True))
    renew(frontier)
    return frontier


@pytest.fixture
def task(published: Frontier) -> Task:
    return submit("shop", {"city": "Ulm"})


@pytest.fixture
def crawl(frontier: Frontier) -> Task:
    """A running task whose root request is held by generation 1."""
    return opened(frontier)


def opened(frontier: Frontier, **settings: Any) -> Task:
    task = Task.objects.create(
        spider="shop",
        settings={"delay": 0, "robots": False, "concurrency": 1000, **settings},
        seeds=b"",
    )
    task.seeds = pack_admissions([root_admission(task.pk)])
    task.save()
    Reconciliation(task, frontier).run()
    (root,) = frontier.claim(1, 1, 10).requests
    assert root.rid == root_admission(task.pk).rid
    return task


def held(task: Task, penalty: int = 0) -> GivenBack:
    """Its root request, to be given back."""
    root = root_admission(task.pk)
    return GivenBack(root.rid, root.host, 1, penalty)


def part(task: Task, number: int, **changes: Any) -> StartPart:
    links = [
        Admission(make_rid(task.pk, request.fingerprint()), 0, request.host, 0, request.encode())
        for n in range(number * SIZE, (number + 1) * SIZE)
        for request in [Request(f"http://h{n % 5}.example/{n}")]
    ]
    root = root_admission(task.pk).rid
    return StartPart(task.pk, root, number, (number + 1) * SIZE, b"mark", 3, links)._replace(
        **changes
    )


def add(task: Task, frontier: Frontier, *numbers: int) -> None:
    for number in numbers:
        one = part(task, number)
        assert DjangoLedger().starts.add(one)
        assert push(frontier, one)


def push(frontier: Frontier, one: StartPart) -> bool:
    host = root_admission(one.task).host
    return frontier.starts.push(one.rid, host, one.task, one.number, one.follow_ups)


def counts(frontier: Frontier, task: Task) -> Counts:
    found = frontier.counts(task.pk)
    assert found is not None
    return found


@both
def test_a_part_is_written_once(task: Task) -> None:
    ledger = DjangoLedger()
    assert ledger.starts.last(task.pk) is None
    assert ledger.starts.add(part(task, 0))
    assert ledger.starts.add(part(task, 0))
    assert not ledger.starts.add(part(task, 0, position=7))
    assert not ledger.starts.add(part(task, 0, follow_ups=part(task, 1).follow_ups))
    assert ledger.starts.last(task.pk) == part(task, 0)
    assert ledger.starts.add(part(task, 1))
    assert ledger.starts.last(task.pk) == part(task, 1)
    assert Row.objects.count() == 2


def test_none_is_written_when_the_start_has_ended(
    task: Task, add_page: Callable[..., Page]
) -> None:
    add_page(task, b"start", url=ROOT_URL)
    assert not DjangoLedger().starts.add(part(task, 0))
    assert not Row.objects.exists()


@both
def test_a_part_that_the_database_refuses(task: Task) -> None:
    with pytest.raises(LedgerRefused):
        DjangoLedger().starts.add(part(task, 0, position=2**80))


@both
def test_parts_are_read_in_order(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starts, "PARTS_PER_STEP", 2)
    for number in range(5):
        DjangoLedger().starts.add(part(task, number))
    found = [len(packed) for packed in starts.lists(task.pk)]
    assert len(found) == 5


def test_a_part_is_admitted_once_while_the_start_runs(frontier: Frontier, crawl: Task) -> None:
    assert push(frontier, part(crawl, 0))
    assert push(frontier, part(crawl, 0))
    assert push(frontier, part(crawl, 1))
    assert (counts(frontier, crawl).na, counts(frontier, crawl).duplicates) == (1 + 2 * SIZE, 0)
    assert frontier.audit() == []


def test_a_start_that_leads_to_something_is_forgiven(frontier: Frontier, crawl: Task) -> None:
    frontier.release(1, [held(crawl, BLAMED)])
    (killer,) = frontier.claim(1, 2, 10).requests
    assert killer.kills == 1
    push(frontier, part(crawl, 0))
    frontier.release(1, [killer.given_back()])
    (again,) = [one for one in frontier.claim(1, 3, 500).requests if one.rid == killer.rid]
    assert (again.kills, again.deliveries) == (0, 0)


def test_nothing_is_admitted_when_the_start_has_ended(frontier: Frontier, crawl: Task) -> None:
    assert not push(frontier, part(crawl, 0, rid=b"x" * 16))
    assert counts(frontier, crawl).na == 1


def test_redis_that_has_lost_the_task(redis_client: Redis, service: Frontier, task: Task) -> None:
    frontier = Frontier(PartitionedStore(redis_client))
    with pytest.raises(FrontierError):
        frontier.admit(10**6, part(task, 0).follow_ups)


def test_the_page_limit_holds(frontier: Frontier) -> None:
    if frontier.store.partitions > 1:
        pytest.skip("each partition has the limit")
    crawl = opened(frontier, page_limit=10)
    push(frontier, part(crawl, 0))
    push(frontier, part(crawl, 0))
    assert (counts(frontier, crawl).na, counts(frontier, crawl).limited) == (11, SIZE - 10)


def test_a_new_era_knows_the_parts(frontier: Frontier, crawl: Task) -> None:
    add(crawl, frontier, 0, 1)
    frontier.eras.wipe()
    renew(frontier)
    assert counts(frontier, crawl).na == 1 + 2 * SIZE
    claimed = frontier.claim(2, 1, 500).requests
    assert root_admission(crawl.pk).rid in {one.rid for one in claimed}
    add(crawl, frontier, 2)
    assert counts(frontier, crawl).na == 1 + 3 * SIZE
    assert frontier.audit() == []


def test_a_cancelled_task_has_rows_for_all_parts(frontier: Frontier, crawl: Task) -> None:
    add(crawl, frontier, 0, 1)
    frontier.release(1, [held(crawl)])
    Task.objects.filter(pk=crawl.pk).update(state="cancelling")
    frontier.cancel(crawl.pk)
    assert counts(frontier, crawl).nr == 0
    DjangoLedger().tasks.finish({crawl.pk: counts(frontier, crawl)})
    crawl.refresh_from_db()
    for _ in settle(crawl):
        pass
    crawl.refresh_from_db()
    assert (crawl.state, crawl.unwritten, crawl.na) == ("cancelled", None, 1 + 2 * SIZE)
    assert Page.objects.filter(task=crawl).count() == 1 + 2 * SIZE
    assert audit(crawl) == []


def test_audit_misses_requests_of_parts(
    task: Task, published: Frontier, add_page: Callable[..., Page]
) -> None:
    other = submit("shop", {"city": "Bonn"})
    DjangoLedger().starts.add(part(task, 0))
    for one in (task, other):
        add_page(one, b"start", url=ROOT_URL)
        Task.objects.filter(pk=one.pk).update(state="finished", na=1, nf=1)
        one.refresh_from_db()
    for found in (audit(task), audit_group([task, other])[task.pk]):
        assert any("recorded but never ended" in problem for problem in found)
    assert not any("recorded but" in problem for problem in audit_group([task, other])[other.pk])


def test_parts_are_removed_with_their_task(
    task: Task, published: Frontier, add_page: Callable[..., Page]
) -> None:
    DjangoLedger().starts.add(part(task, 0))
    Task.objects.filter(pk=task.pk).update(state="finished")
    published.cancel(task.pk)
    published.close_tasks([task.pk])
    assert [*remove(Task.objects.all())]
    assert not Row.objects.exists()


def test_how_far_a_start_is(task: Task, add_page: Callable[..., Page]) -> None:
    api = program(person("viewer"), "read")
    admin = login(is_superuser=True)
    sentence = f"Its start has yielded {2 * SIZE} requests so far"
    page = f"/admin/crawlservice/task/{task.pk}/change/"
    assert api.get(f"tasks/{task.pk}").json()["starting"] is None
    for number in (0, 1):
        DjangoLedger().starts.add(part(task, number))
    assert yielded([task.pk]) == {task.pk: 2 * SIZE}
    assert api.get(f"tasks/{task.pk}").json()["starting"] == 2 * SIZE
    assert sentence in admin.get(page).content.decode()
    add_page(task, b"start", url=ROOT_URL)
    assert yielded([task.pk]) == {}
    assert api.get(f"tasks/{task.pk}").json()["starting"] is None
    assert sentence not in admin.get(page).content.decode()
