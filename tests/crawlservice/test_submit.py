"""Submission and control: database and frontier agree, and refusals leave nothing behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from crawlframe.errors import ArgumentError, FrontierError, UnknownSpider
from crawlframe.frontier import Frontier, TaskLimits
from crawlframe.request.request import Request, root_admission, unpack_admissions
from crawlframe.spider.spider import SpiderInfo
from crawlservice.connections import frontier as service_redis
from crawlservice.connections.lookup import NotFound
from crawlservice.models import Task
from crawlservice.tasks.stored_limits import limits_of
from crawlservice.tasks.submit import (
    WrongState,
    cancel,
    open_in_frontier,
    pause,
    resume,
    submit,
)
from tests.crawlservice.conftest import redis_at


def test_a_task_is_recorded_and_its_root_request_admitted(published: Frontier) -> None:
    task = submit("shop", {"city": "Ulm", "pages": "3"}, priority=7, from_text=True)
    row = Task.objects.get()
    assert (row.pk, row.spider, row.priority, row.state) == (task.pk, "shop", 7, "running")
    assert row.arguments == {"city": "Ulm", "pages": 3}
    assert limits_of(row) == TaskLimits(7, 1500, 3, 101, robots=True)  # 100 pages and the start
    assert unpack_admissions(row.seeds) == [root_admission(task.pk, 7)]
    counts = published.counts(task.pk)
    assert counts is not None
    assert (counts.state, counts.na, counts.ready) == ("running", 1, 1)

    (claimed,) = published.claim(1, 1, 10).requests
    root = Request.decode(claimed.record)
    assert (claimed.rid, claimed.host) == (root_admission(task.pk, 7).rid, f"/{task.pk}")
    assert (root.url, root.callback, root.depth) == ("start:", "start", 0)


def test_the_number_of_a_task_that_the_database_lost_is_not_taken(published: Frontier) -> None:
    """Redis has requests of it."""
    for lost in (1, 2):
        published.open_task(lost, TaskLimits(), [root_admission(lost)])
    task = submit("shop", {"city": "Ulm"})
    assert [row.pk for row in Task.objects.all()] == [task.pk] == [3]
    assert unpack_admissions(task.seeds) == [root_admission(3)]
    assert published.open_tasks() == [1, 2, 3]


def test_tasks_start_side_by_side_whatever_their_delay(published: Frontier) -> None:
    tasks = [submit("shop", {"city": "Ulm"}).pk for _ in range(5)]
    assert sorted(request.task for request in published.claim(1, 1, 10).requests) == tasks


def test_a_higher_priority_means_a_lower_rank(published: Frontier) -> None:
    ranks = [
        unpack_admissions(submit("shop", {"city": "Ulm"}, priority=n).seeds)[0].rank
        for n in (-100, -3, 0, 3, 100)
    ]
    assert ranks == sorted(ranks, reverse=True)
    assert len(set(ranks)) == 5


def test_opening_a_task_again_changes_nothing(published: Frontier) -> None:
    task = submit("shop", {"city": "Ulm"})
    open_in_frontier(Task.objects.get())
    counts = published.counts(task.pk)
    assert counts is not None
    assert (counts.na, counts.duplicates) == (1, 0)


def test_unknown_spiders_are_refused_with_the_known_ones(published: Frontier) -> None:
    with pytest.raises(UnknownSpider, match=r"did you mean 'shop'\?\). Known: shop"):
        submit("shopp", {})
    assert not Task.objects.exists()


def test_without_any_published_spider_the_fix_is_a_node(service: Frontier) -> None:
    with pytest.raises(UnknownSpider, match=r"python manage\.py runcrawler"):
        submit("shop", {"city": "Ulm"})


def test_nodes_that_have_not_published_yet_are_named(
    service: Frontier, join: Callable[..., int]
) -> None:
    join("beta")
    join("alpha")
    join("gone", lease=-1)
    words = refused("shop")
    assert "not ready yet: alpha, beta; see python manage.py node list, then try again" in words
    assert "runcrawler" not in words


def refused(spider: str) -> str:
    with pytest.raises(UnknownSpider) as raised:
        submit(spider, {"city": "Ulm"})
    assert not Task.objects.exists()
    return str(raised.value)


def test_a_spider_that_no_node_has_any_more_is_refused(
    published: Frontier, join: Callable[..., int]
) -> None:
    join("alpha", spiders=("site",), version="1f00c0ffee00", state="live")
    join("beta", version="2f00c0ffee00", state="live")  # its package is empty
    join("gamma")  # loads
    words = refused("shop")
    assert "no node has the spider 'shop' any more" in words
    assert "(alpha 1f00c0ffee00, beta 2f00c0ffee00)" in words
    assert "python manage.py node list" in words


@pytest.mark.parametrize(
    "nodes",
    [
        [{"spiders": ("site",)}, {"spiders": ("shop", "site")}],  # one has it
        [{}],  # no node has finished loading
        [{"spiders": ("site",), "lease": -1}],  # no node is alive
        [{"spiders": ("site",), "leaving": True}, {}],  # a node is handed over
    ],
)
def test_a_spider_that_a_node_has_or_may_have_is_taken(
    published: Frontier, join: Callable[..., int], nodes: list[dict[str, Any]]
) -> None:
    for name, node in zip("ab", nodes, strict=False):
        join(name, **node)
    assert submit("shop", {"city": "Ulm"}).spider == "shop"


def test_a_node_that_leaves_does_not_count_as_having_a_spider(
    published: Frontier, join: Callable[..., int]
) -> None:
    join("alpha", spiders=("shop",), leaving=True)
    join("alpha", spiders=("site",))
    join("beta", spiders=("shop",), lease=-1)
    assert "no node has the spider 'shop' any more" in refused("shop")


def test_a_spider_may_be_described_instead_of_published(
    service: Frontier, shop: SpiderInfo
) -> None:
    assert submit("shop", {"city": "Ulm"}, info=shop).spider == "shop"


def test_wrong_input_leaves_no_task(published: Frontier) -> None:
    for given in ({}, {"city": "Ulm", "x": 1}, {"city": 3}):
        with pytest.raises(ArgumentError):
            submit("shop", given)
    for priority in (-101, 101):
        with pytest.raises(ArgumentError, match=str(priority)):
            submit("shop", {"city": "Ulm"}, priority=priority)
    assert not Task.objects.exists()
    assert published.open_tasks() == []


def test_redis_away_before_a_task_is_recorded(dead_redis: None) -> None:
    with pytest.raises(FrontierError, match="cannot be reached"):
        submit("shop", {"city": "Ulm"})
    assert not Task.objects.exists()


def test_redis_away_after_a_task_was_recorded_loses_nothing(
    dead_redis: None, shop: SpiderInfo, redis_url: str
) -> None:
    with pytest.raises(FrontierError) as raised:
        submit("shop", {"city": "Ulm"}, info=shop)
    task = Task.objects.get()
    assert f"task {task.pk} is recorded" in str(raised.value)
    assert "Nothing is lost" in str(raised.value)
    with redis_at(redis_url):
        open_in_frontier(task)
        counts = service_redis.frontier().counts(task.pk)
    assert counts is not None
    assert counts.na == 1


def test_pause_and_resume_reach_database_and_frontier(published: Frontier) -> None:
    task = submit("shop", {"city": "Ulm"}).pk
    for verb, state in ((pause, "paused"), (pause, "paused"), (resume, "running")):
        verb(task)
        counts = published.counts(task)
        assert counts is not None
        assert counts.state == Task.objects.get().state == state
    resume(task)
    assert len(published.claim(1, 1, 10).requests) == 1


def test_a_paused_task_is_not_claimed(published: Frontier) -> None:
    task = submit("shop", {"city": "Ulm"}).pk
    pause(task)
    assert published.claim(1, 1, 10).requests == []


def test_resume_brings_parked_requests_back(published: Frontier) -> None:
    task = submit("shop", {"city": "Ulm"}).pk
    (claimed,) = published.claim(1, 1, 10).requests
    published.park(1, [claimed.given_back("no such spider")])
    resume(task)
    assert published.parked(task) == {}
    counts = published.counts(task)
    assert counts is not None
    assert (counts.parked, counts.ready) == (0, 1)


def test_cancel_reaches_database_and_frontier_from_any_active_state(published: Frontier) -> None:
    tasks = [submit("shop", {"city": "Ulm"}).pk for _ in range(2)]
    pause(tasks[0])
    for task in (*tasks, tasks[0]):
        cancel(task)
        counts = published.counts(task)
        assert counts is not None
        assert counts.state == Task.objects.get(pk=task).state == "cancelling"


def test_tasks_that_end_have_ended_or_are_unknown_are_left_alone(published: Frontier) -> None:
    task = submit("shop", {"city": "Ulm"}).pk
    cancel(task)
    for verb in (pause, resume):
        with pytest.raises(WrongState, match="is cancelling"):
            verb(task)
    for verb in (pause, resume, cancel):
        for state in ("finished", "cancelled"):
            Task.objects.update(state=state)
            with pytest.raises(WrongState, match=f"task {task} is {state}"):
                verb(task)
            assert Task.objects.get().state == state
        with pytest.raises(NotFound, match="no task 99"):
            verb(99)
