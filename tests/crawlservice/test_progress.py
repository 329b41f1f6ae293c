"""Progress: numbers of Redis while a task runs, of the database afterwards."""

from __future__ import annotations

from django.db import connection
from django.test.utils import CaptureQueriesContext

from crawlframe.frontier import Completion, Frontier
from crawlframe.request.request import Admission, make_rid
from crawlservice.models import Task
from crawlservice.tasks.progress.progress import RateMeter, read
from crawlservice.tasks.submit import submit
from tests.crawlservice.conftest import redis_at


def test_a_running_task_shows_the_frontier(published: Frontier) -> None:
    task = submit("shop", {"city": "Ulm"})
    (root,) = published.claim(1, 1, 10).requests
    follow_ups = [Admission(make_rid(task.pk, b"%d" % n), 0, "h", 0, b"") for n in range(5)]
    published.complete([Completion(root.rid, task.pk, root.host, False, follow_ups, 4, 3)])
    claimed = published.claim(1, 2, 2).requests
    published.retry(1, [claimed[0].given_back(60_000)])

    (progress,) = read([task])
    assert progress.live
    assert not progress.ended
    assert (progress.na, progress.nf, progress.ne, progress.nr) == (6, 1, 0, 5)
    assert (progress.delayed, progress.in_progress, progress.parked) == (1, len(claimed) - 1, 0)
    assert progress.ready == 5 - len(claimed)
    assert (progress.duplicates, progress.items) == (4, 3)
    assert progress.age >= 0


def test_an_ended_task_shows_the_database(ended_task: Task) -> None:
    (progress,) = read([ended_task])
    assert not progress.live
    assert progress.ended
    assert (progress.na, progress.nf, progress.ne, progress.nr) == (3, 2, 1, 0)
    assert progress.items == 2


def test_without_redis_a_running_task_is_shown_as_not_live(ended_task: Task) -> None:
    ended_task.state = Task.State.RUNNING
    with redis_at("redis://127.0.0.1:1/0"):
        (progress,) = read([ended_task])
    assert not progress.live
    assert progress.items == 2


def test_a_task_that_ended_after_its_row_was_read_is_shown_as_ended(
    ended_task: Task, published: Frontier
) -> None:
    (root,) = published.claim(1, 1, 10).requests
    published.complete([Completion(root.rid, ended_task.pk, root.host, False, [], 0, 0)])
    published.close_tasks([ended_task.pk])
    stale = Task.objects.defer("seeds").get()
    stale.state, stale.outcome, stale.finished_at = Task.State.RUNNING, "", None
    stale.na = stale.nf = stale.ne = stale.items = 0
    (progress,) = read([stale])
    assert progress.ended
    assert (progress.na, progress.nf, progress.ne, progress.items) == (3, 2, 1, 2)
    assert progress.task.outcome == ended_task.outcome


def test_many_tasks_cost_no_query(published: Frontier) -> None:
    tasks = [submit("shop", {"city": "Ulm"}) for _ in range(5)]
    with CaptureQueriesContext(connection) as queries:
        found = read(tasks)
    assert len(queries) == 0
    assert [progress.na for progress in found] == [1] * 5


def test_nothing_is_asked_for_no_tasks(service: Frontier) -> None:
    with CaptureQueriesContext(connection) as queries:
        assert read([]) == []
    assert len(queries) == 0


def test_the_rate_is_that_of_the_window() -> None:
    meter = RateMeter(window=10)
    assert meter.rate == 0
    for second in range(31):
        meter.show(done=second * 100 if second <= 20 else 2000 + (second - 20) * 5, now=second)
    assert meter.rate == 5


def test_a_rate_needs_time_and_never_runs_backwards() -> None:
    meter = RateMeter()
    meter.show(5, now=1)
    meter.show(9, now=1)
    assert meter.rate == 0
    meter.show(2, now=3)
    assert meter.rate == 0
