"""A new era: whatever happened to Redis, it is filled again from the database, and the crawl ends
with the exact set."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from django.db.models import QuerySet
from django.test import override_settings
from msgspec.structs import replace
from redis import Redis

from crawlframe.base import processes
from crawlframe.conf import Settings
from crawlframe.errors import EraChanged
from crawlframe.fetch.journey.cookies import TaskCookies
from crawlframe.frontier import Frontier, NodeInfo, TaskLimits
from crawlframe.frontier.client.partitions import PartitionedStore
from crawlframe.node.code import Code
from crawlframe.node.master.generation import Life, begin
from crawlframe.request.request import Admission, Request, make_rid, pack_admissions
from crawlframe.run.ledger import COOKIES, PROXIES, LedgerAway
from crawlframe.run.outcome import Outcome
from crawlframe.run.reasons import DUPLICATE
from crawlservice.ledger import reconcile
from crawlservice.ledger.audit import audit
from crawlservice.ledger.reconcile import Reconciliation, align
from crawlservice.ledger.recovery import is_whole, renew, uncounted
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import Era, Event, Item, Page, Task
from crawlservice.services import DjangoServices
from crawlservice.steward.steward import Steward
from tests.crawlservice.graph import GraphCrawl
from tests.crawlservice.test_steward import turn_until
from tests.frontier.snapshot import Snapshot
from tests.outcomes import set_fields

pytestmark = pytest.mark.usefixtures("few_chores")


ME = NodeInfo(0, "one", "one.example", processes.place(), 2**22 + 1, 0.0, 2, 15)


def services(redis_url: str) -> DjangoServices:
    """The services of a node's process."""
    return DjangoServices(Settings(), redis_url, Code(Path("spiders"), Path("manage.py")))


@pytest.fixture(params=[1, 3])
def partitions(request: Any) -> int:
    number: int = request.param
    return number


@pytest.fixture
def steward(redis_client: Redis, partitions: int) -> Frontier:
    """The frontier with which eras are begun; the first one has begun."""
    frontier = Frontier(PartitionedStore(redis_client, partitions=partitions, follows=True))
    renew(frontier)
    return frontier


@pytest.fixture
def node(redis_client: Redis, partitions: int, steward: Frontier) -> Callable[[], Frontier]:
    """Makes frontiers as nodes' processes have."""

    def make() -> Frontier:
        frontier = Frontier(PartitionedStore(redis_client, partitions=partitions))
        frontier.eras.learn()
        return frontier

    return make


def test_the_first_era(redis_client: Redis, partitions: int) -> None:
    frontier = Frontier(PartitionedStore(redis_client, partitions=partitions))
    assert not is_whole(frontier)
    era = renew(frontier)
    assert (era.number, era.reason) == (1, "the first")
    assert is_whole(frontier)
    assert Era.objects.get().opened_at is not None


def finish(crawl: GraphCrawl, frontier: Frontier, generation: int = 2) -> None:
    while crawl.work(frontier, 90, generation):
        pass


@pytest.mark.parametrize("done", [0, 20])
def test_an_emptied_redis(
    steward: Frontier, node: Callable[[], Frontier], redis_client: Redis, done: int
) -> None:
    crawl, frontier = GraphCrawl(steward), node()
    while sum(crawl.runs.values()) < done:
        crawl.work(frontier, 7)
    redis_client.flushall()
    assert not is_whole(steward)
    with pytest.raises(EraChanged):
        crawl.work(frontier, 7)
    era = renew(steward)
    assert (era.number, era.reason) == (2, "Redis is empty")
    assert steward.audit() == []
    finish(crawl, node())
    crawl.check_end(steward)
    assert max(crawl.runs.values()) == 1, "what has a row is not fetched again"


@pytest.mark.parametrize("lost", [1, 12])
def test_an_older_copy(
    steward: Frontier, node: Callable[[], Frontier], redis_client: Redis, lost: int
) -> None:
    crawl, frontier = GraphCrawl(steward), node()
    crawl.work(frontier, 12)
    crawl.work(frontier, 12)
    copy = Snapshot(redis_client)
    for _ in range(lost):
        assert crawl.work(frontier, 2)
    copy.back()
    with pytest.raises(EraChanged, match="LOST"):
        frontier.eras.confirm()
    assert not is_whole(steward)
    assert renew(steward).reason == "Redis has lost writes"
    assert steward.audit() == []
    finish(crawl, node())
    crawl.check_end(steward)
    assert max(crawl.runs.values()) == 1


def test_a_copy_of_an_earlier_era(
    steward: Frontier, node: Callable[[], Frontier], redis_client: Redis
) -> None:
    crawl = GraphCrawl(steward)
    crawl.work(node(), 5)
    copy = Snapshot(redis_client)
    redis_client.flushall()
    renew(steward)
    crawl.work(node(), 9, 2)
    copy.back()
    assert not is_whole(steward)
    era = renew(steward)
    assert (era.number, era.reason) == (3, "Redis went back to era 1")
    finish(crawl, node(), 3)
    crawl.check_end(steward)


def test_a_committed_request_that_redis_missed_is_not_fetched_again(
    steward: Frontier, node: Callable[[], Frontier], redis_client: Redis
) -> None:
    """Workers die between the commit and the completion, and Redis is lost."""
    crawl, frontier = GraphCrawl(steward), node()
    crawl.work(frontier, 12)
    crawl.commit(crawl.claim(frontier, 5))
    redis_client.flushall()
    renew(steward)
    finish(crawl, node())
    crawl.check_end(steward)
    assert max(crawl.runs.values()) == 1


def test_what_was_held_is_claimed_by_others(
    steward: Frontier, node: Callable[[], Frontier], redis_client: Redis
) -> None:
    crawl, frontier = GraphCrawl(steward), node()
    frontier.leases.renew(1, 1000)
    crawl.work(frontier, 12)
    copy = Snapshot(redis_client)
    held = crawl.claim(frontier, 4)
    assert held
    copy.back()
    renew(steward)
    assert steward.leases.left() == {}
    late = crawl.commit(held)  # of a worker that does not know yet: its rows count
    finish(crawl, node())
    crawl.check_end(steward)
    with pytest.raises(EraChanged):
        frontier.complete(late)


@pytest.mark.parametrize("steps", [1, 2, 4])
def test_a_renewal_that_is_broken_off_is_gone_on_with(
    steward: Frontier,
    node: Callable[[], Frontier],
    redis_client: Redis,
    steps: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("crawlservice.ledger.reconcile.REQUESTS_PER_STEP", 50)

    class Died(BaseException):
        pass

    def still_here(left: list[None]) -> None:
        if not left:
            raise Died
        left.pop()

    crawl, frontier = GraphCrawl(steward, pages=300), node()
    while sum(crawl.runs.values()) < 140:
        crawl.work(frontier, 30)
    redis_client.flushall()
    left: list[None] = [None] * steps
    with pytest.raises(Died):
        renew(steward, lambda: still_here(left))
    with pytest.raises(EraChanged, match="is closed"):
        node().leases.renew(5, 10)
    assert renew(steward).number == 2
    assert [era.opened_at is not None for era in Era.objects.all()] == [True, True]
    finish(crawl, node())
    crawl.check_end(steward)


def test_an_older_copy_that_nobody_lived_to_notice(
    steward: Frontier, node: Callable[[], Frontier], redis_client: Redis, redis_url: str
) -> None:
    """It was restored while all nodes were down; the first one to start notices."""
    crawl, frontier = GraphCrawl(steward), node()
    crawl.work(frontier, 12)
    copy = Snapshot(redis_client)
    while sum(crawl.runs.values()) < 40:
        crawl.work(frontier, 7)
    copy.back()
    done, told = Page.objects.count(), steward.counts(crawl.task.pk)
    assert told is not None
    assert uncounted(steward) == (
        f"{done} requests of task 1 have ended, and Redis knows of {told.nf + told.ne}"
    )
    first = services(redis_url)
    with pytest.raises(EraChanged):
        begin(ME, first, node())
    Steward(Settings(), steward).tick()
    assert Era.objects.count() == 2
    assert uncounted(steward) == ""
    me = begin(ME, first, node())
    finish(crawl, node(), me.generation)
    crawl.check_end(steward)
    assert max(crawl.runs.values()) == 1, "what has a row is not fetched again"


@pytest.mark.parametrize("partitions", [3], indirect=True)
def test_one_partition_that_is_an_older_copy(
    steward: Frontier, node: Callable[[], Frontier], redis_client: Redis
) -> None:
    crawl, frontier = GraphCrawl(steward), node()
    crawl.work(frontier, 12)
    copy = Snapshot(redis_client, "cf:{1}:*")
    while sum(crawl.runs.values()) < 40:
        crawl.work(frontier, 7)
    assert uncounted(steward) == ""
    copy.back()
    assert uncounted(steward) != ""


@pytest.mark.parametrize("partitions", [3], indirect=True)
def test_a_cold_start_after_a_kill_of_everything_begins_no_era(
    steward: Frontier, node: Callable[[], Frontier], redis_url: str
) -> None:
    """Rows were committed without a report to Redis: there, their requests are in progress."""
    crawl = GraphCrawl(steward)
    while sum(crawl.runs.values()) < 20:
        crawl.work(node(), 7)
    for start in range(3):
        me = begin(ME, services(redis_url), node())
        held = crawl.claim(node(), 6, me.generation)
        crawl.commit(held[: 3 + start])
        assert held
        assert uncounted(steward) == ""
    me = begin(ME, services(redis_url), node())
    assert Era.objects.count() == 1
    finish(crawl, node(), me.generation)
    crawl.check_end(steward)
    assert max(crawl.runs.values()) == 1, "what has a row is not fetched again"


def stop(life: Life, frontier: Frontier, services: DjangoServices) -> None:
    life.replay(frontier)


def begin_another(life: Life, frontier: Frontier, services: DjangoServices) -> None:
    frontier.leases.renew(99, 60)  # of a node elsewhere, so no clock is compared
    begin(ME, services, frontier)


def lead(life: Life, frontier: Frontier, services: DjangoServices) -> None:
    frontier.leases.renew(life.generation, 0.001)
    turn_until(
        Steward(
            Settings(),
            Frontier(
                PartitionedStore(
                    frontier.store.redis, partitions=frontier.store.partitions, follows=True
                )
            ),
        ),
        lambda: life.generation not in frontier.leases.left(),
    )


@pytest.mark.parametrize("partitions", [3], indirect=True)
@pytest.mark.parametrize("replays", [stop, begin_another, lead])
def test_what_was_committed_is_counted_before_the_rest_is_given_back(
    steward: Frontier,
    node: Callable[[], Frontier],
    redis_url: str,
    replays: Callable[[Life, Frontier, DjangoServices], None],
) -> None:
    """Otherwise a harmless restart of Redis would look like a loss until it is claimed again."""
    crawl, life = GraphCrawl(steward), Life(Settings(), services(redis_url))
    while sum(crawl.runs.values()) < 20:
        crawl.work(node(), 7)
    assert life.begin(node(), ())
    steward.leases.announce(replace(life.me, node="one", pid=ME.pid))
    held = crawl.claim(node(), 6, life.generation)
    crawl.commit(held[:3])
    steward.pause(crawl.task.pk)
    Task.objects.update(state=Task.State.PAUSED)
    replays(life, node(), services(redis_url))
    assert steward.leases.held([life.generation]) == {life.generation: 0}
    assert uncounted(steward) == ""
    counts = steward.counts(crawl.task.pk)
    assert counts is not None
    assert counts.nf + counts.ne == Page.objects.count()
    assert Era.objects.count() == 1
    steward.resume(crawl.task.pk)
    finish(crawl, node())
    crawl.check_end(steward)
    assert max(crawl.runs.values()) == 1, "what has a row is not fetched again"


def test_a_stop_without_a_database_leaves_the_rest_to_a_steward(
    steward: Frontier, node: Callable[[], Frontier], redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl, life = GraphCrawl(steward), Life(Settings(), services(redis_url))
    assert life.begin(node(), ())
    crawl.commit(crawl.claim(node(), 1, life.generation))

    def refuse(*_: object) -> int:
        raise LedgerAway("it is down")

    with monkeypatch.context() as away:
        away.setattr(DjangoServices, "replay", refuse)
        life.replay(node())
    assert steward.leases.held([life.generation]) == {life.generation: 1}


@pytest.mark.parametrize("state", [Task.State.CANCELLING, Task.State.FINISHED])
def test_only_tasks_that_go_on_are_compared(
    steward: Frontier, node: Callable[[], Frontier], redis_client: Redis, state: Task.State
) -> None:
    crawl = GraphCrawl(steward)
    copy = Snapshot(redis_client)
    finish(crawl, node(), 1)
    copy.back()
    assert uncounted(steward) != ""
    Task.objects.update(state=Task.State.PAUSED)
    assert uncounted(steward) != ""
    Task.objects.update(state=state)
    assert uncounted(steward) == ""


def test_a_ledger_with_more_rows_than_any_era_counts_stops_no_start(
    steward: Frontier, node: Callable[[], Frontier], redis_url: str
) -> None:
    """A database that had lost rows keeps pages that nothing leads to."""
    crawl = GraphCrawl(steward)
    for _ in range(4):
        crawl.work(node(), 5)
    Page.objects.update(follow_ups=None)
    steward.eras.doubt()
    renew(steward, mistrust="rows were lost")
    assert uncounted(steward) != ""
    first = services(redis_url)
    with pytest.raises(EraChanged):
        begin(ME, first, node())
    renew(steward)
    assert uncounted(steward) != ""
    assert begin(ME, first, node()).generation > 0


@pytest.mark.parametrize("partitions", [3], indirect=True)
def test_nothing_is_compared_beside_living_nodes(
    steward: Frontier, node: Callable[[], Frontier], redis_client: Redis, redis_url: str
) -> None:
    """They would have noticed, and counting is not free."""
    crawl = GraphCrawl(steward)
    crawl.work(node(), 5)
    copy = Snapshot(redis_client)
    for _ in range(3):
        crawl.work(node(), 5)
    copy.back()
    steward.leases.renew(77, 60)
    assert services(redis_url).missing(node()) == ""
    steward.leases.replay(77)
    assert services(redis_url).missing(node()) != ""


@pytest.mark.parametrize("partitions", [1], indirect=True)  # each partition has a limit
def test_a_page_limit_holds_and_no_page_is_fetched_beyond_it(
    steward: Frontier, node: Callable[[], Frontier], redis_client: Redis
) -> None:
    crawl, frontier = GraphCrawl(steward, page_limit=30), node()
    for _ in range(3):
        crawl.work(frontier, 6)
    redis_client.flushall()
    renew(steward)
    finish(crawl, node())
    counts = steward.counts(crawl.task.pk)
    assert counts is not None
    assert (counts.na, counts.nr) == (31, 0)
    assert Page.objects.filter(task=crawl.task).count() == 31
    assert DjangoLedger().tasks.finish({crawl.task.pk: counts})


@pytest.mark.parametrize("partitions", [1], indirect=True)
@pytest.mark.parametrize("limit", ["page_limit", "host_page_limit"])
def test_what_was_fetched_comes_before_what_a_limit_had_left_out(
    steward: Frontier,
    node: Callable[[], Frontier],
    redis_client: Redis,
    monkeypatch: pytest.MonkeyPatch,
    limit: str,
) -> None:
    of_page = GraphCrawl.admission
    one_host = lambda crawl, page: of_page(crawl, page)._replace(host="a.example")  # noqa: E731
    monkeypatch.setattr(GraphCrawl, "admission", one_host)
    limits: dict[str, Any] = {limit: 4}
    crawl, frontier = GraphCrawl(steward, **limits), node()
    crawl.work(frontier, 1)
    first, second = (crawl.commit([one]) for one in crawl.claim(frontier, 2))
    frontier.complete(second)  # its links are admitted; the first's are beyond the limit
    frontier.complete(first)
    while crawl.work(frontier, 2):
        pass
    rows = Page.objects.count()
    redis_client.flushall()
    renew(steward)
    counts = steward.counts(crawl.task.pk)
    assert counts is not None
    assert (counts.na, counts.nr) == (rows, 0)


def test_everything_is_admitted_however_small_the_steps(
    steward: Frontier,
    node: Callable[[], Frontier],
    redis_client: Redis,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reconcile, "REQUESTS_PER_STEP", 3)
    crawl, frontier = GraphCrawl(steward), node()
    for _ in range(4):
        crawl.work(frontier, 5)
    done = Page.objects.count()
    redis_client.flushall()
    steward.eras.begin(2)
    again = Reconciliation(crawl.task, steward).run()
    assert again.completed == done
    steward.eras.open()
    finish(crawl, node())
    crawl.check_end(steward)
    assert max(crawl.runs.values()) == 1


def task_with_a_new_delay(steward: Frontier, **fields: Any) -> Task:
    """A task in the database whose delay differs in Redis."""
    task = Task.objects.get(pk=GraphCrawl(steward).task.pk)
    task.published_limits = dict(task.settings)
    task.settings["delay"] = 2500
    for name, value in fields.items():
        setattr(task, name, value)
    task.save()
    return task


def delays(steward: Frontier, task: Task) -> set[bytes | None]:
    """The task's delays in all partitions."""
    keys = [keys("TASK", task.pk) for keys in steward.store.keys]
    return {steward.store.redis.hget(key, "delay") for key in keys}


def test_limits_that_redis_has_not_heard_of_hold_in_the_next_era(steward: Frontier) -> None:
    task = task_with_a_new_delay(steward)
    Reconciliation(task, steward).run()
    assert delays(steward, task) == {b"2500"}


def test_a_task_that_was_paused_just_now_is_not_resumed(steward: Frontier) -> None:
    task = GraphCrawl(steward).task
    Task.objects.filter(pk=task.pk).update(state="paused")
    steward.pause(task.pk)
    counts = steward.counts(task.pk)
    assert counts is not None
    align(task, steward, counts)  # the object was read before
    counts = steward.counts(task.pk)
    assert counts is not None
    assert counts.state == "paused"


def test_a_task_may_end_while_it_is_reconciled(
    steward: Frontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl = GraphCrawl(steward)
    monkeypatch.setattr(steward, "counts", lambda task: None)
    assert Reconciliation(crawl.task, steward).run().completed == 0


@pytest.mark.parametrize("state", ["running", "paused", "cancelling"])
def test_limits_that_were_not_sent_are_sent_to_an_active_task(
    steward: Frontier, state: str
) -> None:
    task = task_with_a_new_delay(steward, limits_unsent=True, state=state)
    counts = steward.counts(task.pk)
    assert counts is not None
    align(task, steward, counts)
    assert delays(steward, task) == {b"0" if state == "cancelling" else b"2500"}
    assert Task.objects.get().limits_unsent == (state == "cancelling")


def test_a_limit_per_host_holds_in_the_next_era(
    steward: Frontier, node: Callable[[], Frontier], redis_client: Redis
) -> None:
    crawl, frontier = GraphCrawl(steward, host_page_limit=6), node()
    for _ in range(3):
        crawl.work(frontier, 6)
    redis_client.flushall()
    renew(steward)
    finish(crawl, node())
    counts = steward.counts(crawl.task.pk)
    assert counts is not None
    assert (counts.na, counts.nr) == (Page.objects.count(), 0)
    numbers = [int(url[1:]) % 5 for url in Page.objects.values_list("url", flat=True)]
    assert max(map(numbers.count, range(5))) == 6
    assert {*crawl.runs.values()} == {1}
    assert DjangoLedger().tasks.finish({crawl.task.pk: counts})
    assert audit(Task.objects.get(pk=crawl.task.pk)) == []


def test_a_task_that_has_ended_is_not_crawled_again(
    steward: Frontier, node: Callable[[], Frontier], redis_client: Redis
) -> None:
    crawl = GraphCrawl(steward)
    frontier = node()
    crawl.work(frontier, 5)
    copy = Snapshot(redis_client)
    finish(crawl, frontier)
    crawl.check_end(steward)
    copy.back()
    renew(steward)
    assert crawl.claim(node(), 100, 2) == []
    counts = steward.counts(crawl.task.pk)
    assert counts is not None
    assert counts.nr == 0


def test_a_paused_task_stays_paused(
    steward: Frontier, node: Callable[[], Frontier], redis_client: Redis
) -> None:
    crawl = GraphCrawl(steward)
    crawl.work(node(), 5)
    Task.objects.update(state=Task.State.PAUSED)
    redis_client.flushall()
    renew(steward)
    counts = steward.counts(crawl.task.pk)
    assert counts is not None
    assert counts.state == "paused"
    assert crawl.claim(node(), 100, 2) == []


def test_a_task_does_not_end_while_a_partition_lacks_some_of_it(redis_client: Redis) -> None:
    """Partition 1 loses its latest requests, and every process that knew them is gone."""

    def client() -> Frontier:
        frontier = Frontier(PartitionedStore(redis_client, partitions=3, follows=True))
        frontier.eras.learn()
        return frontier

    steward = Steward(Settings(), client())
    steward.tick()
    crawl = GraphCrawl(client())
    for _ in range(4):
        crawl.work(client(), 3)
    older = Snapshot(redis_client, "cf:{1}:*")
    for _ in range(3):
        crawl.work(client(), 3)
    older.back()
    client().leases.replay(1)
    while crawl.work(client(), 90, 2):
        pass
    rows = Page.objects.filter(task=crawl.task).count()
    counts = client().counts(crawl.task.pk)
    assert counts is not None
    assert (counts.nr, counts.na) == (0, rows)
    assert rows < len(crawl.closure())
    steward.tick()
    assert Task.objects.get().state == Task.State.RUNNING
    while crawl.work(client(), 90, 2):
        pass
    crawl.check_end(client())


def test_half_a_script_keeps_no_request_out(
    steward: Frontier, node: Callable[[], Frontier], redis_client: Redis
) -> None:
    """A power cut in the middle of a completion left the fingerprints of its follow-ups, and
    nothing else."""
    crawl, frontier = GraphCrawl(steward), node()
    for _ in range(4):
        crawl.work(frontier, 3)
    before = Snapshot(redis_client)
    crawl.work(frontier, 3)
    half = Snapshot(redis_client, "*:seen:*")
    before.back()
    half.back()
    with pytest.raises(EraChanged, match="LOST"):
        crawl.work(frontier, 1)
    renew(steward)
    finish(crawl, node())
    crawl.check_end(steward)


@pytest.mark.parametrize("partitions", [1], indirect=True)
def test_requests_that_no_claim_can_see_are_found(
    steward: Frontier,
    node: Callable[[], Frontier],
    redis_client: Redis,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("crawlservice.steward.task_chore.STALL", 0.0)
    crawl, frontier, chores = GraphCrawl(steward), node(), Steward(Settings(), steward)
    crawl.work(frontier, 3)
    steward.leases.replay(1)
    chores.tick()
    chores.tick()
    assert steward.eras.settled() == 1, "nothing is wrong yet"
    redis_client.delete(steward.store.keys[0]("HOSTS"))
    assert crawl.claim(frontier, 9, 2) == []
    chores.tick()  # since now
    chores.tick()
    assert steward.eras.settled() == 0
    chores.tick()
    finish(crawl, node(), 3)
    crawl.check_end(steward)


def lose(lost: QuerySet[Page]) -> None:
    """A standby that lagged behind took over: these pages are gone."""
    Item.objects.filter(rid__in=lost.values("rid")).delete()
    lost.delete()


def test_a_database_that_lost_rows_gets_them_again(
    steward: Frontier, node: Callable[[], Frontier]
) -> None:
    crawl, frontier = GraphCrawl(steward), node()
    for _ in range(3):
        crawl.work(frontier, 4)
    behind = Page.objects.values_list("pk", flat=True)[0]
    for _ in range(3):
        crawl.work(frontier, 6)
    lose(Page.objects.filter(pk__gt=behind))
    finish(crawl, frontier, 1)
    counts = steward.counts(crawl.task.pk)
    assert counts is not None
    assert (counts.nr, counts.na) == (0, Page.objects.count() + 18)
    Steward(Settings(), steward).tick()
    assert (Task.objects.get().state, Era.objects.count()) == (Task.State.RUNNING, 2)
    with pytest.raises(EraChanged):
        crawl.work(frontier, 1)
    finish(crawl, node())
    crawl.check_end(steward)
    assert max(crawl.runs.values()) == 2


def test_a_page_that_was_lost_and_is_another_one_now(
    steward: Frontier, node: Callable[[], Frontier]
) -> None:
    """Two pages that only it led to were written since: the task ends, and the audit names them."""
    crawl = GraphCrawl(steward)
    finish(crawl, node(), 1)
    lose(Page.objects.filter(url="/10"))
    crawl.pages = 11
    chores = Steward(Settings(), steward)
    chores.tick()
    finish(crawl, node())
    chores.tick()
    chores.tick()
    assert (Era.objects.count(), Event.objects.count()) == (2, 1)
    assert steward.open_tasks() == []
    strays = Page.objects.filter(url__in=["/21", "/22"]).order_by("rid")
    (problem,) = [line for line in audit(Task.objects.get()) if "nothing led to" in line]
    assert all(str(page.rid) in problem for page in strays)
    assert problem.count(",") == 1


def test_a_database_that_lost_the_end_of_a_task_too(
    steward: Frontier, node: Callable[[], Frontier]
) -> None:
    crawl, frontier = GraphCrawl(steward), node()
    crawl.work(frontier, 1)
    crawl.work(frontier, 4)
    behind = Page.objects.values_list("pk", flat=True)[0]
    finish(crawl, frontier, 1)
    crawl.check_end(steward)
    lose(Page.objects.filter(pk__gt=behind))
    Event.objects.all().delete()
    Task.objects.update(state=Task.State.RUNNING)
    Steward(Settings(), steward).tick()
    assert Era.objects.count() == 2
    with pytest.raises(EraChanged):  # a process that has seen links of rows that are gone must stop
        frontier.leases.renew(1, 1000)
    finish(crawl, node())
    crawl.check_end(steward)


@pytest.mark.parametrize("known", ["nothing", "recorded", "has a row"])
def test_targets_of_redirects_are_known_again(
    steward: Frontier, redis_client: Redis, known: str
) -> None:
    """A request's target of a redirect is not fetched by any other request, whatever its link's
    state."""
    urls = [f"http://{name}.example/" for name in ("a", "b", "t")]
    first, link, target = (
        Admission(make_rid(1, url.encode()), 1, url[7:-1], 0, Request(url).encode()) for url in urls
    )
    task = Task.objects.create(pk=1, spider="s", arguments={}, seeds=pack_admissions([first, link]))

    def outcome(one: Admission, **fields: Any) -> Outcome:
        return set_fields(Outcome(one.rid, 1, one.host, one.record, 0, 0), **fields)

    outcomes = [outcome(first, landing=(target.rid, urls[2]))]
    if known != "nothing":
        outcomes.append(outcome(link, follow_ups=[target]))
    if known == "has a row":
        outcomes.append(outcome(target, reason=DUPLICATE))
    DjangoLedger().commit(outcomes)
    for _ in range(2):
        redis_client.flushall()
        renew(steward)
        assert steward.known([(1, [target])]) == [[True]]
        counts = steward.counts(1)
        assert counts is not None
        assert (counts.na, counts.nf) == (2 + (known == "has a row"), len(outcomes))
        assert steward.audit() == []
    counts = steward.counts(1)
    if counts is not None and counts.nr == 0:
        DjangoLedger().tasks.finish({1: counts})
        task.refresh_from_db()
        assert (task.state, audit(task)) == ("finished", [])


def cookie(value: str, name: str = "session") -> str:
    fields = [name, value, "a.example", False, False, "/", False, False, None]
    return orjson.dumps(fields).decode()


@pytest.mark.parametrize("loss", ["emptied", "an older copy"])
def test_cookies_and_proxies_of_sessions_are_there_again(
    steward: Frontier, redis_client: Redis, loss: str
) -> None:
    """They are restored before any claim. Deleted ones stay deleted."""
    Task.objects.create(pk=1, spider="s", arguments={}, seeds=pack_admissions([]))
    steward.open_task(1, TaskLimits(), [])
    ledger, key, place = DjangoLedger(), "a.example|/|session", "a.example|pool#1.s"
    gone = "a.example|/|gone"
    for value, other in (("early", "1"), ("late", "")):
        entries = {key: cookie(value), gone: other and cookie(other, "gone")}
        ledger.tasks.keep_state({(1, COOKIES): entries, (1, PROXIES): {place: "7"}})
        if value == "early":
            steward.share_cookies(1, entries)
    if loss == "emptied":
        redis_client.flushall()
    renew(steward, mistrust="a test")
    found = steward.cookies(1)
    assert found.entries == {key: cookie("late"), gone: ""}
    jar = TaskCookies()
    jar.load(*found)
    assert jar.header_for("http://a.example/") == "session=late"
    host = steward.store.keys[steward.store.partition_of("a.example")]("HOST", place)
    assert redis_client.hget(host, "px") == b"7"
    assert steward.audit() == []


@pytest.mark.parametrize("partitions", [3], indirect=True)
def test_a_task_whose_cookies_cannot_be_read_waits(
    steward: Frontier, redis_client: Redis, caplog: Any
) -> None:
    other = Task.objects.create(pk=2, spider="s", arguments={}, seeds=pack_admissions([]))
    task = Task.objects.create(pk=1, spider="s", arguments={}, seeds=pack_admissions([]))
    DjangoLedger().tasks.keep_state({(1, COOKIES): {"a|/|k": cookie("1")}})
    redis_client.flushall()
    with override_settings(SECRET_KEY="another"):
        renew(steward)
    for one in (task, other):
        one.refresh_from_db()
    assert (task.state, other.state) == ("paused", "running")
    counts = steward.counts(1)
    assert counts is not None
    assert counts.state == "paused"
    assert "CRAWLFRAME_SECRET_KEY" in caplog.text
    assert is_whole(steward)
