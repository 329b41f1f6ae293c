"""Hosts: orders of operators and robots.txt for a host, and its rests."""

from __future__ import annotations

import math
import time

import pytest

from crawlframe.errors import FrontierError
from crawlframe.frontier import TaskLimits
from crawlframe.frontier.hosts import HostOrder, HostState
from tests.frontier.bench import Bench

HOUR, DAY = 3600.0, 86400.0


def obeying(bench: Bench, *requests: object, task: int = 1, delay: int = 0) -> None:
    limits = TaskLimits(0, delay, 8, robots=True)
    bench.frontier.open_task(task, limits, list(requests))


def due(bench: Bench) -> None:
    """The time has come for the next request of the host."""
    if bench.redis.hexists(bench.key("HOST", "a.example"), "n"):
        bench.redis.hset(bench.key("HOST", "a.example"), "n", 1)
    bench.redis.zadd(bench.key("HOSTS"), {"a.example": 1}, xx=True)


def test_a_paused_host_gives_nothing_until_it_is_resumed(bench: Bench) -> None:
    bench.open(*bench.requests(2), bench.request("other", "b.example"))
    bench.frontier.hosts.order("a.example", HostOrder(paused=True))
    assert bench.names(bench.claim_all()) == ["other"]
    state = bench.frontier.hosts.states(["a.example"])["a.example"]
    assert (state.why, state.next_at, state.queued) == ("paused", math.inf, 2)
    assert bench.frontier.hosts.held() == {"a.example": ("paused", math.inf)}
    bench.frontier.hosts.clear_order("a.example")
    assert len(bench.claim_all()) == 2
    assert bench.frontier.hosts.held() == {}


def test_a_pause_ends_by_itself(bench: Bench) -> None:
    bench.open(*bench.requests(1))
    until = time.time() + HOUR
    bench.frontier.hosts.order("a.example", HostOrder(paused=True, until=until))
    assert bench.claim() == []
    assert 1000 < bench.wait <= 1000 * HOUR
    assert bench.frontier.hosts.held()["a.example"][1] == pytest.approx(until, abs=0.001)
    bench.redis.hset(bench.key("HOST", "a.example"), "ou", 1)
    due(bench)
    assert len(bench.claim()) == 1
    assert bench.frontier.hosts.held() == {}
    assert bench.frontier.hosts.states(["a.example"])["a.example"].order is None


def test_requests_that_arrive_at_a_paused_host_wait(bench: Bench) -> None:
    bench.frontier.hosts.order("a.example", HostOrder(paused=True))
    bench.open(*bench.requests(1))
    assert bench.claim_all() == []
    assert bench.wait > 1000


def test_requests_of_a_cancelled_task_do_not_wait_for_a_paused_host(bench: Bench) -> None:
    """They end without a fetch."""
    bench.open(*bench.requests(1))
    bench.open(bench.request("of another", task=2), task=2)
    (held,) = [one for one in bench.claim() if one.task == 1]
    bench.frontier.hosts.order("a.example", HostOrder(paused=True))
    bench.begin_cancel(1)
    bench.frontier.release(1, [held.given_back()])
    assert [one.rid for one in bench.claim_all(generation=2)] == [held.rid]


def test_the_delay_of_an_order_holds_for_all_tasks(bench: Bench) -> None:
    bench.open(*bench.requests(3), delay=3_600_000)
    bench.open(bench.request("x", task=2), task=2)
    bench.claim(1)
    assert bench.claim() == []
    bench.frontier.hosts.order("a.example", HostOrder(delay=60))
    assert bench.frontier.hosts.states(["a.example"])["a.example"].next_at <= time.time() + 60
    due(bench)
    assert len(bench.claim()) == 1
    assert bench.claim() == []


def test_the_concurrency_of_an_order_holds_for_all_tasks(bench: Bench) -> None:
    bench.open(*bench.requests(3), concurrency=1)
    bench.open(*bench.requests(3, task=2), task=2)
    assert len(bench.claim_all()) == 1
    bench.frontier.hosts.order("a.example", HostOrder(concurrency=4))
    assert len(bench.claim_all()) == 3
    state = bench.frontier.hosts.states(["a.example"])["a.example"]
    assert (state.in_flight, state.concurrency) == (4, 4)
    assert state.order == HostOrder(concurrency=4)


def test_an_order_outlives_an_idle_host(bench: Bench) -> None:
    bench.open(*bench.requests(1))
    bench.frontier.hosts.order("a.example", HostOrder(delay=5))
    (request,) = bench.claim()
    bench.complete(request)
    assert bench.redis.ttl(bench.key("HOST", "a.example")) == -1
    bench.frontier.hosts.clear_order("a.example")
    assert 0 < bench.redis.ttl(bench.key("HOST", "a.example")) <= 25 * HOUR


@pytest.mark.parametrize(
    "order", [HostOrder(), HostOrder(delay=-1), HostOrder(delay=math.inf), HostOrder(concurrency=0)]
)
def test_an_order_that_says_nothing_or_nonsense_is_refused(bench: Bench, order: HostOrder) -> None:
    with pytest.raises(FrontierError, match=r"a\.example"):
        bench.frontier.hosts.order("a.example", order)


def test_one_request_at_a_time_goes_out_until_robots_are_known(bench: Bench) -> None:
    obeying(bench, *bench.requests(4))
    (first,) = bench.claim_all()
    bench.frontier.hosts.robots("a.example", time.time() + HOUR)
    assert len(bench.claim_all()) == 3
    state = bench.frontier.hosts.states(["a.example"])["a.example"]
    assert state.robots_until == pytest.approx(time.time() + HOUR, abs=5)
    bench.complete(first)


def test_what_is_known_of_robots_expires(bench: Bench) -> None:
    obeying(bench, *bench.requests(4))
    bench.frontier.hosts.robots("a.example", time.time() + 0.05)
    time.sleep(0.06)
    assert len(bench.claim_all()) == 1


def test_tasks_that_ignore_robots_do_not_wait_for_them(bench: Bench) -> None:
    obeying(bench, *bench.requests(2))
    bench.open(*bench.requests(2, task=2), task=2)
    bench.frontier.hosts.robots("a.example", wait=HOUR)
    assert {one.task for one in bench.claim_all()} == {2}
    assert bench.wait > 1000
    state = bench.frontier.hosts.states(["a.example"])["a.example"]
    assert state.why == "robots"
    bench.frontier.hosts.robots("a.example", time.time() + HOUR)
    assert len(bench.claim_all()) == 2


def test_an_unreadable_robots_txt_does_not_end_the_delay_of_another_one(bench: Bench) -> None:
    hosts = bench.frontier.hosts
    hosts.robots("a.example", time.time() + HOUR, delay=7.0)  # of http
    hosts.hold_robots("a.example", 60.0)  # of https
    state = hosts.states(["a.example"])["a.example"]
    assert (state.robots_delay, state.robots_until) == (7.0, 0.0)
    until = time.time() + HOUR
    hosts.robots("a.example", until, delay=7.0)
    hosts.hold_robots("a.example", 60.0, known=True)  # a request is on an errand
    state = hosts.states(["a.example"])["a.example"]
    assert (state.robots_delay, round(state.robots_until - until)) == (7.0, 0)
    assert state.robots_wait > time.time()
    assert state.robots_wait == pytest.approx(time.time() + 60, abs=5)


@pytest.mark.parametrize(("other", "holds"), [(2.0, 7.0), (9.0, 9.0)])
def test_the_larger_delay_holds_when_it_can_be_read_again(
    bench: Bench, other: float, holds: float
) -> None:
    hosts, now = bench.frontier.hosts, time.time()
    assert hosts.open_robots("a.example", now + HOUR, 7.0, now)  # of http
    assert not hosts.open_robots("a.example", now + HOUR, 2.0, now)
    hosts.hold_robots("a.example", 60.0)  # of https
    assert hosts.open_robots("a.example", now + HOUR, other, now)
    state = hosts.states(["a.example"])["a.example"]
    assert (state.robots_delay, state.robots_until) == (holds, pytest.approx(now + HOUR, abs=1))
    assert state.robots_wait == pytest.approx(now + holds, abs=5)


def test_the_delay_of_an_old_robots_txt_ends_with_it(bench: Bench) -> None:
    hosts, now = bench.frontier.hosts, time.time()
    hosts.open_robots("a.example", now - 1, 7.0, now - HOUR)
    hosts.open_robots("a.example", now + HOUR, 2.0, now)
    assert hosts.states(["a.example"])["a.example"].robots_delay == 2.0


def test_the_delay_of_robots_is_the_least_one(bench: Bench) -> None:
    obeying(bench, *bench.requests(3))
    bench.frontier.hosts.robots("a.example", time.time() + HOUR, delay=60)
    assert len(bench.claim_all()) == 1
    bench.frontier.hosts.order("a.example", HostOrder(delay=0))
    assert bench.claim() == []
    due(bench)
    assert len(bench.claim_all()) == 1
    assert bench.frontier.hosts.states(["a.example"])["a.example"].delay == 60


def test_the_limits_of_a_running_task_change_at_once(bench: Bench) -> None:
    bench.open(*bench.requests(9), delay=3_600_000, concurrency=1)
    assert len(bench.claim_all()) == 1
    bench.frontier.set_limits(1, TaskLimits(concurrency=4))
    assert len(bench.claim_all()) == 3
    with pytest.raises(FrontierError, match="task 7 is not known"):
        bench.frontier.set_limits(7, TaskLimits())


def test_active_hosts(bench: Bench) -> None:
    bench.open(*bench.requests(1), bench.request("b", "b.example"))
    bench.frontier.hosts.order("c.example", HostOrder(delay=1))
    bench.claim(1)
    assert sorted(bench.frontier.hosts.active()) == ["a.example", "b.example", "c.example"]


def test_a_host_that_nobody_knows(bench: Bench) -> None:
    state = bench.frontier.hosts.states(["nowhere.example"])["nowhere.example"]
    assert state == HostState()


def test_an_order_without_an_end_outlives_an_era(bench: Bench) -> None:
    bench.open(*bench.requests(1))
    bench.frontier.hosts.order("a.example", HostOrder(paused=True))
    bench.frontier.eras.wipe()
    assert bench.redis.ttl(bench.key("HOST", "a.example")) == -1
    bench.open(*bench.requests(1))
    assert bench.claim() == []
    assert bench.frontier.hosts.held() == {"a.example": ("paused", math.inf)}


def ttl_of_an_idle_host(bench: Bench, **fields: object) -> float:
    """Seconds for which a host with these fields is kept after its last request; -0.001: always."""
    bench.open(*bench.requests(1))
    (one,) = bench.claim()
    bench.redis.hset(bench.key("HOST", "a.example"), mapping=fields)
    bench.complete(one)
    assert bench.redis.exists(bench.key("HOST", "a.example"))
    kept = float(bench.redis.pttl(bench.key("HOST", "a.example"))) / 1000
    bench.redis.flushall()  # such fields alone are no sound state
    return kept


def in_ms(seconds: float) -> int:
    """The time in so many seconds, in milliseconds."""
    return int(1000 * (time.time() + seconds))


@pytest.mark.parametrize("field", ["ro", "g", "b"])
def test_what_was_learned_about_a_host_is_kept_for_a_day(bench: Bench, field: str) -> None:
    assert ttl_of_an_idle_host(bench, **{field: "1"}) == pytest.approx(DAY, abs=60)


def test_its_address_is_kept_for_ten_minutes(bench: Bench) -> None:
    assert ttl_of_an_idle_host(bench, ip="192.0.2.1") == pytest.approx(600, abs=60)


@pytest.mark.parametrize("field", ["od", "oc", "op"])
def test_an_order_without_end_is_kept_for_ever(bench: Bench, field: str) -> None:
    assert ttl_of_an_idle_host(bench, x=1, **{field: "1"}) == -0.001


@pytest.mark.parametrize("field", ["od", "oc"])
def test_an_order_is_kept_until_it_ends(bench: Bench, field: str) -> None:
    fields = {"x": 1, field: "1", "ou": in_ms(3 * DAY)}
    assert ttl_of_an_idle_host(bench, **fields) == pytest.approx(3 * DAY, abs=60)


def test_a_rest_is_kept_for_a_day_after_its_end(bench: Bench) -> None:
    fields = {"x": 1, "r": in_ms(2 * DAY)}
    assert ttl_of_an_idle_host(bench, **fields) == pytest.approx(3 * DAY, abs=60)


@pytest.mark.parametrize("value", ["junk", -5])
def test_an_impossible_number_of_slots_is_replaced(bench: Bench, value: object) -> None:
    key = bench.key("HOST", "a.example")
    bench.open(*bench.requests(6), concurrency=2)
    flying = bench.claim()
    bench.redis.hset(key, "a", value)
    bench.redis.zadd(bench.key("HOSTS"), {"a.example": 0})
    flying += bench.claim()
    assert (len(flying), bench.redis.hget(key, "a")) == (4, b"2")
    bench.redis.hset(key, "a", value)
    bench.complete(flying[0])
    assert bench.redis.hget(key, "a") == b"0"
    assert len(bench.claim()) == 2
    bench.redis.flushall()  # the audit would find the uncounted requests


def test_the_host_that_has_been_due_for_the_longest_time(bench: Bench) -> None:
    hosts = bench.frontier.hosts
    assert hosts.longest_due() is None
    bench.open(bench.request("x"), bench.request("y", "b.example"), bench.request("z", "c.example"))
    now = 1000 * time.time()
    ages = {"a.example": -HOUR, "b.example": 2 * HOUR, "c.example": HOUR}
    bench.redis.zadd(
        bench.key("HOSTS"), {name: now - 1000 * age for name, age in ages.items()}, xx=True
    )
    found = hosts.longest_due()
    assert found is not None
    assert (found[0], round(found[1] / HOUR, 2)) == ("b.example", 2)
    bench.redis.zadd(bench.key("HOSTS"), {"b.example": now + 9e6, "c.example": now + 9e6})
    assert hosts.longest_due() is None  # a.example waits for its delay, too


def test_hosts_that_wait_for_an_address_may_be_due_for_the_longest_time(bench: Bench) -> None:
    due_since = 1000 * (time.time() - HOUR)
    bench.redis.zadd(bench.key("HOSTS"), {"@192.0.2.1": due_since})
    bench.redis.zadd(bench.key("WAITING", "192.0.2.1"), {"b.example": due_since})
    found = bench.frontier.hosts.longest_due()
    bench.redis.delete(bench.key("HOSTS"), bench.key("WAITING", "192.0.2.1"))
    assert found is not None
    assert found[0] == "b.example"


def test_ready_requests_by_task(bench: Bench) -> None:
    bench.open(*bench.requests(3), bench.request("other", "b.example"))
    bench.open(bench.request("x", task=2), task=2)
    assert bench.frontier.hosts.tasks("a.example") == {1: 3, 2: 1}
    assert bench.frontier.hosts.tasks("b.example") == {1: 1}
    assert bench.frontier.hosts.tasks("nothing.example") == {}
    assert len(bench.frontier.hosts.tasks("a.example", limit=1)) == 1
    bench.frontier.pause(1)
    bench.claim_all()
    assert bench.frontier.hosts.tasks("a.example") == {}
