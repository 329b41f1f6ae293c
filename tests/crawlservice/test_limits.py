"""Limits of a task that are changed while it runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from redis import Redis

from crawlframe.conf import Settings
from crawlframe.errors import ArgumentError
from crawlframe.frontier import Frontier
from crawlservice.accounts.roles import give_role
from crawlservice.connections.lookup import NotFound
from crawlservice.ledger.recovery import renew
from crawlservice.models import Action, Task
from crawlservice.steward.steward import Steward
from crawlservice.tasks.limits import BadLimit, change_limits
from crawlservice.tasks.submit import RedisNotUpdated, WrongState, pause, submit
from tests.crawlservice.conftest import redis_at

both = pytest.mark.databases("sqlite", "postgres")

WHO: dict[str, Any] = {"command": True}


@pytest.fixture
def task(published: Frontier) -> Task:
    return submit("shop", {"city": "Ulm"})


def in_force(frontier: Frontier, task: Task) -> dict[str, str]:
    found = frontier.store.redis.hgetall(frontier.store.keys[0]("TASK", task.pk))
    names = ("delay", "concurrency", "limit", "auto")
    return {name: found[name.encode()].decode() for name in names}


@both
def test_limits_are_recorded_and_hold_at_once(published: Frontier, task: Task) -> None:
    change_limits(task.pk, WHO, delay=0.25, concurrency=2, page_limit=7)
    expected = {"delay": "250", "concurrency": "2", "limit": "8", "auto": "0"}
    assert in_force(published, task) == expected
    task.refresh_from_db()
    assert (task.settings["delay"], task.settings["page_limit"]) == (250, 7)
    assert task.published_limits == {
        "delay": 1500, "concurrency": 3, "page_limit": 100, "adaptive": False, "robots": True,
    }  # fmt: skip
    assert not task.limits_unsent
    (entry,) = Action.objects.all()
    assert (entry.verb, entry.task_id) == ("change limits", task.pk)
    assert entry.detail == {"command": True, "delay": 0.25, "concurrency": 2, "page_limit": 7}
    change_limits(task.pk, WHO, page_limit=0)
    assert in_force(published, task) == {**expected, "limit": "0"}


def test_the_delay_can_be_left_to_the_frontier_and_back(published: Frontier, task: Task) -> None:
    Task.objects.update(settings={"delay": 500, "adaptive": True, "concurrency": 3})
    change_limits(task.pk, WHO, delay=2.0)
    assert in_force(published, task)["delay"] == "2000"
    assert in_force(published, task)["auto"] == "0"
    change_limits(task.pk, WHO, delay=3.0)
    change_limits(task.pk, WHO, delay="auto")
    assert in_force(published, task)["delay"] == "500", "the least, as its author set it"
    assert in_force(published, task)["auto"] == "1"


def test_impossible_limits_are_refused_by_name(task: Task) -> None:
    for field, given in (
        ("delay", {}),
        ("delay", {"delay": -0.1}),
        ("delay", {"delay": math.inf}),
        ("concurrency", {"concurrency": 0}),
        ("page_limit", {"page_limit": -1}),
    ):
        with pytest.raises(BadLimit) as caught:
            change_limits(task.pk, WHO, **given)
        assert caught.value.field == field
        assert not Action.objects.exists()


def test_limits_of_what_is_not_running_are_refused(task: Task) -> None:
    with pytest.raises(NotFound):
        change_limits(4711, WHO, delay=1.0)
    pause(task.pk)
    change_limits(task.pk, WHO, delay=1.0)
    Task.objects.update(state="finished")
    with pytest.raises(WrongState, match="finished"):
        change_limits(task.pk, WHO, delay=1.0)


def test_what_redis_missed_is_told_by_the_steward(
    published: Frontier, task: Task, redis_url: str
) -> None:
    renew(published)
    with redis_at("redis://127.0.0.1:1/0"), pytest.raises(RedisNotUpdated, match="limits"):
        change_limits(task.pk, WHO, delay=6.0)
    assert in_force(published, task)["delay"] == "1500"
    Steward(Settings(), published).tick()
    assert in_force(published, task)["delay"] == "6000"
    assert not Task.objects.get().limits_unsent


def test_a_new_era_has_the_limits_of_the_database(
    published: Frontier, task: Task, redis_client: Redis
) -> None:
    renew(published)
    change_limits(task.pk, WHO, delay=6.0)
    redis_client.hset(published.store.keys[0]("TASK", task.pk), "delay", 1500)  # an older copy
    published.eras.doubt()
    renew(published)
    assert in_force(published, task)["delay"] == "6000"
    redis_client.flushall()
    Steward(Settings(), published).tick()
    assert in_force(published, task)["delay"] == "6000"


@both
def test_the_latest_limits_are_what_redis_has_in_the_end(
    published: Frontier, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one process tells, another changes them."""
    tell, late = published.set_limits, [True]

    def slow(task: int, limits: Any) -> None:
        if late and late.pop():
            change_limits(task, WHO, delay=9.0)
        tell(task, limits)

    monkeypatch.setattr(published, "set_limits", slow)
    change_limits(task.pk, WHO, delay=1.0)
    assert in_force(published, task)["delay"] == "9000"


def test_who_only_submits_keeps_to_the_bounds_of_the_spider(
    published: Frontier, as_role: Callable[[str], Client]
) -> None:
    """As at submission: of a task of their own that runs."""
    client = as_role("submitter")
    me = User.objects.get()
    task = submit("shop", {"city": "Ulm"}, user=me)  # delay 1.5, concurrency 3
    for given in ({"delay": 0.0}, {"concurrency": 4}, {"delay": 9.0, "concurrency": 10_000}):
        with pytest.raises(ArgumentError, match="only operators"):
            change_limits(task.pk, {"user": me}, **given)
    sent = {"delay": "0", "concurrency": "3", "page_limit": "0"}
    page = client.post(f"/admin/crawlservice/task/{task.pk}/limits/", sent)
    assert "only operators" in page.content.decode()
    change_limits(task.pk, {"user": me}, delay=9, concurrency=1, page_limit=7)
    give_role(me, "operator")
    change_limits(task.pk, {"user": User.objects.get()}, delay=0, concurrency=9)
