"""Waits: why nothing of a task is fetched, in the word of the gate, whoever asks."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from crawlframe.frontier import TaskLimits
from crawlframe.frontier.client.records import REFUSED, FreedSlot, Signal
from crawlframe.frontier.hosts import HostOrder
from tests.frontier.bench import NODE, Bench

HOST = "a.example"


def waits(bench: Bench, task: int = 1) -> tuple[str, float] | None:
    wait = bench.frontier.waits.of({task: bench.counts(task)}).get(task)
    return None if wait is None else (wait.why, wait.until)


def test_a_task_whose_requests_may_go_does_not_wait(bench: Bench) -> None:
    bench.open(*bench.requests(2))
    assert waits(bench) is None
    bench.claim(1)
    bench.frontier.hosts.order(HOST, HostOrder(paused=True))
    assert waits(bench) is None, "one is in progress"


def test_a_paused_host_holds_a_task_until_somebody_acts(bench: Bench) -> None:
    bench.open(*bench.requests(2))
    bench.frontier.hosts.order(HOST, HostOrder(paused=True))
    assert waits(bench) == ("paused", math.inf)
    stuck, found = bench.frontier.standstill()
    assert [*(stuck or {})] == [*found] == [1]
    assert str(found[1]) == "a.example is held (paused) until a person acts"
    bench.frontier.hosts.clear_order(HOST)
    assert (waits(bench), bench.frontier.standstill()) == (None, (None, {}))


def test_every_host_must_be_closed(bench: Bench) -> None:
    bench.open(*bench.requests(2), *bench.requests(1, "b.example"))
    bench.frontier.hosts.order(HOST, HostOrder(paused=True))
    assert waits(bench) is None
    bench.frontier.hosts.hold_robots("b.example", 60)
    assert waits(bench) is None, "the task does not obey robots.txt"


def test_the_first_host_that_opens_counts(bench: Bench) -> None:
    limits = TaskLimits(robots=True)
    bench.frontier.open_task(1, limits, [*bench.requests(1), *bench.requests(1, "b.example")])
    bench.frontier.hosts.order(HOST, HostOrder(paused=True))
    bench.frontier.hosts.hold_robots("b.example", 60)
    why, until = waits(bench) or ("", 0.0)
    assert why == "robots"
    assert 50 < until - bench.now() / 1000 <= 60


@pytest.mark.parametrize("partitions", [1, 4])
def test_a_delay_is_a_wait(make_bench: Callable[..., Bench], partitions: int) -> None:
    bench = make_bench(partitions=partitions)
    bench.open(*bench.requests(3), delay=600_000)
    (first,) = bench.claim_unsent()
    bench.report_sent(first)
    bench.complete(first)
    why, until = waits(bench) or ("", 0.0)
    assert why == "delay"
    assert 590 < until - bench.now() / 1000 <= 600
    assert bench.frontier.hosts.states([HOST])[HOST].why == "delay"


def test_a_rest_is_a_wait(bench: Bench) -> None:
    bench.open(*bench.requests(3))
    (one,) = bench.claim(1)
    signal = Signal(REFUSED, 30_000)
    bench.sequences[NODE] += 1
    over = [FreedSlot(one.rid, one.host, one.claim, signal)]
    bench.frontier.claim(NODE, bench.sequences[NODE], 0, over)
    bench.complete(one)
    why, until = waits(bench) or ("", 0.0)
    assert why == "refused"
    assert 20 < until - bench.now() / 1000 <= 30


def test_a_closed_host_is_not_due_however_long_nobody_claims(bench: Bench) -> None:
    bench.open(*bench.requests(1))
    bench.redis.zadd(bench.key("HOSTS"), {HOST: bench.now() - 60_000})
    assert (bench.frontier.hosts.longest_due() or ("", 0))[0] == HOST
    bench.redis.hset(bench.key("HOST", HOST), mapping={"x": 1, "r": bench.now() + 60_000})
    assert bench.frontier.hosts.longest_due() is None


def test_a_request_of_another_task_does_not_wait_with_a_closed_one(bench: Bench) -> None:
    bench.frontier.open_task(1, TaskLimits(robots=True), bench.requests(1))
    bench.frontier.hosts.hold_robots(HOST, 60)
    assert bench.claim() == []
    bench.frontier.open_task(2, TaskLimits(), [bench.request("two", task=2)])
    assert bench.names(bench.claim()) == ["two"]


def test_a_proxied_fetch_obeys_the_orders_for_its_host(bench: Bench) -> None:
    """The limits of a pair are its own; orders of operators for the host hold for all."""
    bench.open(*bench.requests(1))
    bench.frontier.hosts.order(HOST, HostOrder(paused=True))
    asked = bench.frontier.permits.ask(NODE, 1, f"{HOST}|5", b"token", 1000, 1000)
    assert not asked.given
    bench.frontier.hosts.clear_order(HOST)
    assert bench.frontier.permits.ask(NODE, 1, f"{HOST}|5", b"token", 1000, 1000).given
