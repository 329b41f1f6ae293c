"""Hosts that were last fetched long ago are forgotten, unless something of them still matters."""

from __future__ import annotations

import threading
import time
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection, connections
from django.test import override_settings
from django.utils import timezone

from crawlframe.conf import Settings
from crawlframe.frontier import Frontier, hosts
from crawlframe.frontier.client.records import TaskLimits
from crawlframe.request.request import Admission, make_rid
from crawlframe.run.ledger import HostStats
from crawlservice.hosts import idle, orders
from crawlservice.hosts.idle import IdleHosts
from crawlservice.ledger.host_stats import add
from crawlservice.models import Host, RobotsFile, Task
from crawlservice.steward.pruning import Pruner, delete
from crawlservice.steward.steward import Steward
from tests.crawlservice.beside import another_transaction

pytestmark = [pytest.mark.usefixtures("few_chores"), pytest.mark.databases("sqlite", "postgres")]

WHO: dict[str, Any] = {"command": True}


def ago(days: float) -> datetime:
    return timezone.now() - timedelta(days=days)


def host(name: str, days: float | None = 91, **fields: Any) -> str:
    last = None if days is None else ago(days)
    Host.objects.create(name=name, first_at=ago(200), last_at=last, **fields)
    return name


def prune(frontier: Frontier) -> set[str]:
    pruner = Pruner.of(frontier)
    for _ in range(20):
        pruner.tick()
    return {*Host.objects.values_list("name", flat=True)}


def test_hosts_that_were_last_fetched_long_ago_go(service: Frontier) -> None:
    host("old.example")
    host("never.example", None)
    recent = host("recent.example", 89)
    Host.objects.create(name="new.example")
    assert prune(service) == {recent, "new.example"}


def test_hosts_with_an_order_or_that_are_held_stay(service: Frontier) -> None:
    kept = {
        host("ordered.example", ordered_at=ago(100), delay=5.0),
        host("paused.example", paused=True, ordered_at=ago(100)),
        host("held.example", held_why="blocked", held_since=ago(100)),
        host("unsent.example", unsent="order"),
    }
    host("old.example")
    assert prune(service) == kept


def test_hosts_of_which_redis_knows_something_stay(service: Frontier) -> None:
    queued, robots = host("queued.example"), host("robots.example")
    waits = Admission(make_rid(1, b"1"), 0, queued, 0, b"")
    service.open_task(1, TaskLimits(), [waits])
    service.hosts.robots(robots, known_until=timezone.now().timestamp() + 60)
    host("old.example")
    assert prune(service) == {queued, robots}


def test_hosts_stay_of_which_requests_wait_out_of_sight(
    service: Frontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Delayed, parked, or of a task that is paused: then Redis has nothing under their names."""
    names = [host(f"{name}.example") for name in ("delayed", "parked", "paused", "old")]
    for pk, name in enumerate(names[:3], 1):
        delay = 60_000 if pk == 1 else 0
        Task.objects.create(pk=pk, spider="x", state="paused" if pk == 3 else "running")
        service.open_task(pk, TaskLimits(), [Admission(make_rid(pk, b"1"), 0, name, delay, b"")])
    service.pause(3)
    [claimed] = service.claim(1, 0, 9).requests
    service.park(1, [claimed.given_back("code")], "v1")
    monkeypatch.setattr(hosts, "MOST_WAITING", 1)
    assert prune(service) == {*names}, "too many to look at"
    monkeypatch.undo()
    assert prune(service) == {*names[:3]}


def test_a_robots_txt_that_nobody_needs_goes(service: Frontier) -> None:
    def file(origin: str, **times: float) -> None:
        RobotsFile.objects.create(origin=origin, **{name: ago(n) for name, n in times.items()})

    file("http://old", read_at=92, known_until=91)
    file("http://unreachable", next_try=91, unreachable_since=400)
    file("http://never")
    file("http://known", read_at=91, known_until=90 - 1 / 24)
    file("http://tried", read_at=400, next_try=89)
    file("http://being-read", known_until=400, lease_until=0)
    with override_settings(KEEP_HOSTS=0):
        prune(service)
        assert RobotsFile.objects.count() == 6
    prune(service)
    left = RobotsFile.objects.values_list("origin", flat=True)
    assert {*left} == {"http://known", "http://tried", "http://being-read"}


def test_zero_days_are_for_ever(service: Frontier) -> None:
    host("old.example", 9000)
    with override_settings(KEEP_HOSTS=0):
        assert prune(service) == {"old.example"}


def test_the_table_is_looked_at_in_parts(
    service: Frontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idle, "ROWS", 3)
    for n in range(7):
        host(f"{n}.example", 1 if n in (1, 4) else 91)
    find = IdleHosts(service)
    assert [delete(find()) for _ in range(4)] == [2, 2, 1, 0]
    host("later.example")
    assert [delete(find()) for _ in range(2)] == [1, 0]


def test_a_host_that_is_fetched_meanwhile_stays(service: Frontier) -> None:
    host("old.example")
    rows = IdleHosts(service)()
    add({"old.example": HostStats(pages=1)})
    assert delete(rows) == 0
    assert Host.objects.get().pages == 1


def test_a_host_that_is_forgotten_meanwhile_can_be_ordered(service: Frontier) -> None:
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    host("old.example")

    def pause() -> None:
        try:
            orders.pause("old.example", WHO)
        finally:
            connections.close_all()

    operator = threading.Thread(target=pause)
    with another_transaction(Host.objects.all().delete):
        operator.start()
        while not waits_for_a_lock():
            time.sleep(0.01)
    operator.join(60)
    assert Host.objects.get().paused


def waits_for_a_lock() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
        return cursor.fetchone() is not None


def test_the_leading_steward_forgets_them(service: Frontier) -> None:
    host("old.example")
    steward = Steward(Settings(), service)
    for _ in range(20):
        steward.tick()
    assert not Host.objects.exists()
