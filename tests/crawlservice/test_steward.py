"""The steward: which nodes it declares dead, and how long it works on cancelled tasks."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace

import pytest
from django.db import DataError, OperationalError, connection
from django.test.utils import CaptureQueriesContext
from redis import Redis, TimeoutError

from crawlframe.conf import Settings
from crawlframe.errors import FrontierError
from crawlframe.frontier import Frontier
from crawlframe.run.ledger import LedgerAway, LedgerRefused
from crawlservice.chores.chore import Calls, Chore, Job
from crawlservice.connections.contained import contained, failures
from crawlservice.hosts.orders import ROBOTS
from crawlservice.ledger.cancellation import Settler
from crawlservice.ledger.recovery import renew
from crawlservice.models import Host, Task
from crawlservice.steward import nodes, task_chore
from crawlservice.steward import steward as module
from crawlservice.steward.chores import MigrationWatch
from crawlservice.steward.pruning import Pruner
from crawlservice.steward.steward import Steward
from crawlservice.steward.task_chore import TaskChore
from crawlservice.tasks.submit import submit
from crawlservice.webhooks import chores as webhooks
from tests.crawlservice.chores import until
from tests.servers import RedisServer

pytestmark = pytest.mark.usefixtures("service")

LEASE, LONG = 1.0, 0.4  # seconds
LIVING, DEAD = 7, 8


@pytest.fixture
def server(redis_server: Callable[..., RedisServer]) -> RedisServer:
    return redis_server()


def lease_left(frontier: Frontier) -> float:
    """The longest time left of any lease."""
    return max(frontier.leases.left().values())


def is_lost(frontier: Frontier, generation: int) -> bool:
    """Whether it was replayed."""
    return generation not in frontier.leases.left()


def turn_until(steward: Steward, ready: Callable[[], bool]) -> None:
    def turned() -> bool:
        steward.tick()
        return ready()

    until(turned)


def test_leases_that_nobody_could_renew_say_nothing(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setattr(nodes, "ROUND_SECONDS", LONG)
    frontier = Frontier.connect(server.url, Settings(), follows=True)
    steward = Steward(Settings(lease=LEASE), frontier)
    steward.tick()
    for generation in (LIVING, DEAD):
        frontier.leases.renew(generation, LEASE)
    with Redis.from_url(server.url) as client:
        client.config_set("maxmemory", 1)
        turn_until(steward, lambda: lease_left(frontier) < LONG / 2)
        while lease_left(frontier) >= 0:
            time.sleep(0.01)
        client.delete("cf:steward")  # as if it had expired
        caplog.clear()
        for _ in range(3):
            steward.tick()
        assert caplog.text.count("this steward leads no longer") == 1
        client.config_set("maxmemory", 0)
    for _ in range(3):
        steward.tick()
    assert not is_lost(frontier, LIVING)
    frontier.leases.renew(LIVING, 60)
    turn_until(steward, lambda: is_lost(frontier, DEAD))
    assert not is_lost(frontier, LIVING)


@pytest.mark.parametrize(
    ("where", "error"),
    [
        ((Pruner, "tick"), DataError("smallint out of range")),
        ((TaskChore, "tick"), LedgerRefused("a task is odd")),
        ((webhooks, "create_deliveries"), FrontierError("out of order")),
        ((MigrationWatch, "tick"), DataError("no rights")),
    ],
    ids=["pruner", "tasks", "webhooks", "migrations"],
)
def test_a_chore_that_always_fails_holds_up_no_other(
    service: Frontier,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    where: tuple[object, str],
    error: Exception,
) -> None:
    renew(service)
    settled = []

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(*where, fail)
    monkeypatch.setattr(Settler, "tick", lambda self: settled.append(1))
    steward = Steward(Settings(lease=0.2), service)
    steward.context.last_whole -= 60  # no lease could be renewed for long
    service.leases.renew(DEAD, 0.001)
    turn_until(steward, lambda: is_lost(service, DEAD))
    assert settled
    said = [record.message for record in caplog.records if "wait" in record.message]
    assert said == [f"chores wait: {error}"]


@pytest.mark.parametrize("error", [OperationalError, LedgerAway, TimeoutError])
def test_a_lost_connection_is_no_failure_of_a_row_and_only_the_second_one_of_a_chore(
    service: Frontier, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    lost = iter([True, False, True, False])

    def lose(self: TaskChore) -> None:
        with contained("task 1"):
            if next(lost):
                raise error("no answer for 60 s")

    monkeypatch.setattr(TaskChore, "tick", lose)
    renew(service)
    steward = Steward(Settings(), service)
    told = []
    for _ in range(4):
        steward.tick()
        told.append((steward._news().waits, failures.lately()))
    steward.resign()
    said = "no answer for 60 s"
    named = f"tasks: {error.__name__}: {said}"
    assert told == [(said, 0), ("", 0), (f"{said}; {named}", 1), (named, 1)]


@pytest.mark.databases("sqlite", "postgres")
def test_chores_without_rows_are_left_out(service: Frontier) -> None:
    renew(service)
    steward = Steward(Settings(), service)
    for _ in range(2):
        steward.tick()
    with CaptureQueriesContext(connection) as queries:
        steward.tick()
    assert len(queries) < 10
    Host.objects.create(name="a.example", unsent=ROBOTS)
    steward.tick()
    assert Host.objects.get().unsent == ""


def test_the_last_round_of_a_chore_is_repeated_until_it_succeeds(service: Frontier) -> None:
    rounds = [1, 0, 1]  # the second fails
    job = Job(Chore("one", lambda _: Calls(lambda: 1 / rounds.pop())))
    context = Steward(Settings(), service).context
    for used in (True, False, False, False):
        with suppress(ZeroDivisionError):
            job.run(context, used)
    assert rounds == []


def test_cancelled_tasks_share_the_seconds_of_a_round(
    published: Frontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many large ones must neither cost it the lead nor make it appear to hang."""
    start = 1e6 + round(time.monotonic())
    now, given, beats = [start], list[float](), list[float]()

    def cancel(task: int, seconds: float) -> bool:
        given.append(seconds)
        now[0] += 1.5
        return False

    for _ in range(3):
        submit("shop", {"city": "Ulm"})
    steward = Steward(Settings(), published)
    steward.tick()
    Task.objects.update(state=Task.State.CANCELLING)
    monkeypatch.setattr(published, "cancel", cancel)
    for each in (module, task_chore):
        monkeypatch.setattr(each, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(steward, "_beat", lambda: beats.append(now[0]))
    steward.tick()
    assert given == [2.0, 0.5, 0.0]
    assert {start, start + 1.5, start + 3} <= {*beats}
