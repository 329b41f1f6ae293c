"""Addresses: hosts at one IP address share its limits, for tasks that have some."""

from __future__ import annotations

import random
import time
from itertools import pairwise
from typing import Any

import pytest
from redis import Redis

from crawlframe.frontier import Claimed, TaskLimits
from crawlframe.frontier.client.partitions import PartitionedStore
from crawlframe.frontier.client.records import NOTHING, FreedSlot, Signal

from .bench import NODE, Bench, seeds

ONE, TWO = "192.0.2.1", "192.0.2.2"
EVER = 3_600_000  # ms: a delay that does not end during a test


def begin(
    bench: Bench, hosts: int, each: int, concurrency: int = 0, delay: int = 0, task: int = 1
) -> None:
    """A task with ``each`` requests of each host h0, h1, ..."""
    limits = TaskLimits(0, 0, 1000, ip_concurrency=concurrency, ip_delay=delay)
    links = [
        bench.request(f"{task} h{n}/{i}", f"h{n}", task=task)
        for n in range(hosts)
        for i in range(each)
    ]
    bench.frontier.open_task(task, limits, links)


def at(address: str) -> Signal:
    return Signal(NOTHING, 0, address)


def settle(bench: Bench, address: str = ONE, n: int = 500) -> list[Claimed]:
    """Claims, as workers do: requests of hosts without an address are given back with one."""
    claimed: list[Claimed] = []
    while some := bench.claim(n):
        lost = [one.given_back(0, at(address)) for one in some if one.homeless]
        if lost:
            assert bench.frontier.release(NODE, lost) == len(lost)
        claimed += [one for one in some if not one.homeless]
        assert bench.frontier.audit() == []
    return claimed


def finish(bench: Bench, *requests: Claimed) -> None:
    bench.complete_all(requests)
    assert bench.frontier.audit() == []


def hosts_due(bench: Bench) -> set[str]:
    return {name.decode() for name in bench.redis.zrange(bench.key("HOSTS"), 0, -1)}


def slots(bench: Bench, address: str = ONE) -> int:
    return int(bench.redis.hget(bench.key("ADDRESS", address), "a") or 0)


def pass_delay(bench: Bench) -> None:
    """As if an hour and a bit had passed for the address."""
    bench.redis.hincrbyfloat(bench.key("ADDRESS", ONE), "n", -EVER - 100)
    if bench.redis.zscore(bench.key("HOSTS"), f"@{ONE}"):
        bench.redis.zincrby(bench.key("HOSTS"), -EVER - 100, f"@{ONE}")


def nothing_is_left(bench: Bench) -> None:
    kept = {key.decode() for key in bench.redis.scan_iter() if bench.redis.ttl(key) == -1}
    kinds = ("ip:", "iw:", "h:", "hosts")
    assert not [key for key in kept if key.partition("}:")[2].startswith(kinds)]


def test_the_first_request_of_a_host_finds_out_its_address(bench: Bench) -> None:
    begin(bench, hosts=2, each=3, concurrency=5)
    first = bench.claim()
    assert [one.homeless for one in first] == [True, True]  # one of each host
    bench.frontier.release(NODE, [one.given_back(0, at(ONE)) for one in first])
    rest = bench.claim()
    assert [one.homeless for one in rest] == [False] * 5
    assert {one.rid for one in first} <= {one.rid for one in rest}
    assert slots(bench) == 5


def test_it_costs_no_delay_and_no_try(bench: Bench) -> None:
    limits = TaskLimits(0, EVER, 8, adaptive=True, ip_concurrency=1)
    bench.frontier.open_task(1, limits, [bench.request("a", "h0"), bench.request("b", "h0")])
    (one,) = settle(bench)
    assert one.attempts == 0
    assert bench.names([one]) == ["a"]
    finish(bench, one)
    assert settle(bench) == []  # now the delay of the host holds


def test_a_task_without_such_limits_is_not_counted(bench: Bench) -> None:
    begin(bench, hosts=2, each=2)
    some = bench.claim()
    assert [one.homeless for one in some] == [False] * 4
    fetched = [FreedSlot(one.rid, one.host, one.claim, at(ONE)) for one in some]
    bench.frontier.claim(NODE, 99, 0, fetched)
    assert slots(bench) == 0
    assert not bench.redis.exists(bench.key("PLACED"))


def test_requests_in_flight_at_an_address(bench: Bench) -> None:
    begin(bench, hosts=5, each=4, concurrency=3)
    done = 0
    flying = settle(bench)
    while flying:
        assert len(flying) <= 3
        assert slots(bench) == len(flying)
        finish(bench, flying.pop(0))
        done += 1
        flying += settle(bench)
    assert done == 20
    nothing_is_left(bench)


def test_other_addresses_are_not_held_up(bench: Bench) -> None:
    begin(bench, hosts=2, each=10, concurrency=2)
    bench.frontier.release(
        NODE, [c.given_back(0, at({"h0": ONE, "h1": TWO}[c.host])) for c in bench.claim()]
    )
    assert sorted(one.host for one in settle(bench)) == ["h0", "h0", "h1", "h1"]


def test_the_delay_of_an_address(bench: Bench) -> None:
    begin(bench, hosts=4, each=2, delay=30)
    lost = [one.given_back(0, at(ONE)) for one in bench.claim()]
    bench.frontier.release(NODE, lost)
    times: list[float] = []
    while len(times) < 8:
        if some := bench.claim():
            (one,) = some
            times.append(float(bench.redis.hget(bench.key("ADDRESS", ONE), "n")))
            finish(bench, one)
        else:
            time.sleep(max(bench.wait, 1) / 1000)
    assert all(later - earlier >= 30 for earlier, later in pairwise(times))


def test_requests_of_an_address_are_claimed_ahead_and_say_when_they_may_be_sent(
    early_bench: Bench,
) -> None:
    bench, began = early_bench, time.monotonic()
    begin(bench, hosts=3, each=2, delay=EVER)
    lost = [one.given_back(0, at(ONE)) for one in bench.claim()]
    bench.frontier.release(NODE, lost)
    hosts = []
    for turn in range(6):
        (one,) = bench.claim_unsent()
        assert one.due is not None
        assert one.due >= began + turn * EVER / 1000
        assert one.due <= time.monotonic() + turn * EVER / 1000 + 1
        assert bench.claim_unsent() == []  # it was not sent yet
        bench.report_sent(one)
        hosts.append(one.host)
    assert len({*hosts[:3]}) == len({*hosts[3:]}) == 3


def test_the_later_one_of_the_delays_of_host_and_address_counts(early_bench: Bench) -> None:
    bench, began = early_bench, time.monotonic()
    limits = TaskLimits(0, 3 * EVER, 8, ip_delay=EVER)
    links = [bench.request(f"{host}/{n}", host) for host in ("h0", "h1") for n in range(2)]
    bench.frontier.open_task(1, limits, links)
    dues: dict[str, list[float]] = {"h0": [], "h1": []}
    for _ in range(4):
        while (some := bench.claim_unsent()) and some[0].homeless:
            bench.frontier.release(NODE, [one.given_back(0, at(ONE)) for one in some])
        (one,) = some
        assert one.due is not None
        bench.report_sent(one)
        dues[one.host].append(one.due - began)
    assert all(second >= first + 3 * EVER / 1000 - 1 for first, second in dues.values())
    times = sorted(due for each in dues.values() for due in each)
    assert all(later >= earlier + EVER / 1000 - 1 for earlier, later in pairwise(times))


def test_nothing_is_claimed_of_an_address_until_a_request_was_sent(bench: Bench) -> None:
    begin(bench, hosts=4, each=2, delay=EVER)
    lost = [one.given_back(0, at(ONE)) for one in bench.claim()]
    bench.frontier.release(NODE, lost)
    (one,) = bench.claim_unsent()
    pass_delay(bench)
    assert bench.claim() == []
    assert bench.frontier.audit() == []
    bench.report_sent(one)
    assert bench.claim() == []
    pass_delay(bench)
    (other,) = bench.claim_unsent()
    pass_delay(bench)
    finish(bench, other)  # whatever it was, it was sent by now
    assert bench.claim() == []
    pass_delay(bench)
    assert len(bench.claim()) == 1


def test_the_end_of_another_request_says_nothing_of_the_one_that_is_unsent(bench: Bench) -> None:
    begin(bench, hosts=3, each=2, concurrency=5, delay=EVER)
    lost = [one.given_back(0, at(ONE)) for one in bench.claim()]
    bench.frontier.release(NODE, lost)
    (one,) = bench.claim()
    pass_delay(bench)
    (unsent,) = bench.claim_unsent()
    finish(bench, one)
    pass_delay(bench)
    assert bench.claim() == []
    bench.report_sent(unsent)
    pass_delay(bench)
    assert len(bench.claim()) == 1


def test_a_claim_says_when_an_address_is_due(bench: Bench) -> None:
    begin(bench, hosts=3, each=2, delay=EVER)
    assert len(settle(bench)) == 1
    assert EVER - 10_000 < bench.wait <= EVER


def test_hosts_of_an_address_take_turns(bench: Bench) -> None:
    begin(bench, hosts=4, each=3, concurrency=1)
    hosts = []
    while some := settle(bench):
        hosts += [one.host for one in some]
        finish(bench, *some)
    assert len(hosts) == 12
    assert all(len({*hosts[n : n + 4]}) == 4 for n in (0, 4, 8))


def test_hosts_that_wait_for_an_address_cost_nothing(make_bench: Any) -> None:
    bench = make_bench(store=PartitionedStore)
    begin(bench, hosts=300, each=2, concurrency=1)
    flying = settle(bench)
    assert hosts_due(bench) == set()  # not even the address has a slot
    calls = []
    for _ in range(20):
        finish(bench, *flying)
        before = bench.redis.info("commandstats")
        flying = bench.claim(64)
        after = bench.redis.info("commandstats")
        calls.append(sum(row["calls"] - before.get(name, {"calls": 0})["calls"]
                         for name, row in after.items()))  # fmt: skip
        assert len(flying) == 1
    assert max(calls) < 50, calls


def test_a_host_that_moves_takes_its_slots_along(bench: Bench) -> None:
    begin(bench, hosts=2, each=6, concurrency=4)
    flying = settle(bench)
    assert (slots(bench, ONE), slots(bench, TWO)) == (4, 0)
    mine = [one for one in flying if one.host == "h0"]
    fetched = [FreedSlot(mine[0].rid, "h0", mine[0].claim, at(TWO))]
    bench.sequences[NODE] += 1
    more = bench.frontier.claim(NODE, bench.sequences[NODE], 0, fetched)
    assert more.requests == []
    assert slots(bench, TWO) == len(mine) - 1
    assert slots(bench, ONE) == 4 - len(mine)
    assert bench.frontier.audit() == []
    settle(bench)
    assert (slots(bench, ONE), slots(bench, TWO)) == (4, 4)


def test_a_host_that_waits_is_found_after_it_moved(bench: Bench) -> None:
    begin(bench, hosts=1, each=4, concurrency=1)
    (one,) = settle(bench)
    bench.sequences[NODE] += 1
    fetched = [FreedSlot(one.rid, one.host, one.claim, at(TWO))]
    claim = bench.frontier.claim(NODE, bench.sequences[NODE], 10, fetched)
    assert len(claim.requests) == 1
    assert (slots(bench, ONE), slots(bench, TWO)) == (0, 1)
    assert bench.frontier.audit() == []


def test_hosts_that_wait_are_found_after_one_moved_with_an_unsent_request(bench: Bench) -> None:
    begin(bench, hosts=2, each=3, concurrency=3, delay=30)
    first = bench.claim_unsent()
    bench.frontier.release(NODE, [one.given_back(0, at(ONE)) for one in first])
    flying: dict[str, Claimed] = {}
    while True:
        time.sleep(0.04)
        (unsent,) = bench.claim_unsent()
        if unsent.host in flying:
            break
        flying[unsent.host] = unsent
        bench.report_sent(unsent)
    mover = flying.pop(unsent.host)
    bench.complete_all(flying.values())
    moved = FreedSlot(mover.rid, mover.host, mover.claim, at(TWO))
    bench.sequences[NODE] += 1
    bench.frontier.claim(NODE, bench.sequences[NODE], 0, [moved])
    assert bench.frontier.audit() == []
    bench.report_sent(unsent)
    finish(bench, mover, unsent)
    time.sleep(0.04)
    assert {one.host for one in bench.claim()} == {"h0", "h1"}


@pytest.mark.parametrize("verb", ["retry", "release", "park", "replay"])
def test_what_is_given_back_gives_its_slot_back(bench: Bench, verb: str) -> None:
    begin(bench, hosts=3, each=2, concurrency=2)
    flying = settle(bench)
    assert slots(bench) == 2
    for one in flying:
        if verb == "replay":
            bench.leases.replay(NODE)
            break
        bench.give_up(one, verb)
        assert bench.frontier.audit() == []
    assert slots(bench) == 0
    assert bench.frontier.audit() == []


def test_a_cancelled_task_leaves_nothing_that_waits(bench: Bench) -> None:
    begin(bench, hosts=5, each=4, concurrency=1)
    (one,) = settle(bench)
    assert bench.frontier.cancel(1)
    assert bench.frontier.audit() == []
    finish(bench, one)
    assert bench.counts().nr == 0
    assert bench.claim() == []
    nothing_is_left(bench)


def test_cancelled_requests_wait_for_no_address(bench: Bench) -> None:
    begin(bench, hosts=3, each=1, concurrency=1)
    (one,) = settle(bench)
    bench.begin_cancel(1)
    bench.redis.zadd(bench.key("HOSTS"), dict.fromkeys(["h0", "h1", "h2"], 0))
    assert len(bench.claim()) == 2  # to be ended unfetched
    assert bench.frontier.audit() == []
    assert slots(bench) == 3
    finish(bench, one)


def test_a_paused_task_frees_the_address_for_others(bench: Bench) -> None:
    begin(bench, hosts=2, each=3, concurrency=1)
    begin(bench, hosts=2, each=3, concurrency=1, task=2)
    (one,) = settle(bench)
    bench.frontier.pause(1)
    finish(bench, one)
    done = 0
    while some := settle(bench):
        assert {request.task for request in some} <= {2} or done == 0
        finish(bench, *some)
        done += len(some)
    bench.frontier.resume(1)
    while some := settle(bench):
        finish(bench, *some)
        done += len(some)
    assert done == 11


def test_the_strictest_task_at_a_host_counts(bench: Bench) -> None:
    begin(bench, hosts=2, each=5, concurrency=6)
    begin(bench, hosts=2, each=5, concurrency=2, task=2)
    assert len(settle(bench)) <= 6
    assert bench.frontier.audit() == []


def test_new_limits_of_a_running_task(bench: Bench) -> None:
    begin(bench, hosts=3, each=5, concurrency=1)
    assert len(settle(bench)) == 1
    bench.frontier.set_limits(1, TaskLimits(0, 0, 1000, ip_concurrency=4))
    assert len(settle(bench)) == 3
    bench.frontier.set_limits(1, TaskLimits(0, 0, 1000))
    assert len(settle(bench)) == 11


def test_an_address_of_an_earlier_era_is_found_out_again(bench: Bench) -> None:
    begin(bench, hosts=2, each=2, concurrency=1)
    bench.redis.hset(bench.key("HOST", "h0"), "ip", TWO)
    assert [one.homeless for one in bench.claim()] == [True, True]
    assert bench.frontier.audit() == []
    assert slots(bench, TWO) == 0


def test_an_address_is_no_host(bench: Bench) -> None:
    begin(bench, hosts=3, each=2, delay=EVER)
    settle(bench)
    assert any(name.startswith("@") for name in hosts_due(bench))
    assert {*bench.frontier.hosts.active()} == {"h0", "h1", "h2"}
    assert bench.frontier.hosts.states(["h1"])["h1"].address == ONE


def damages(bench: Bench) -> list[Any]:
    return [
        (lambda: bench.redis.hincrby(bench.key("ADDRESS", ONE), "a", 1), "are not counted"),
        (lambda: bench.redis.delete(bench.key("ADDRESS", ONE)), "no claim can see it"),
        (lambda: bench.redis.delete(bench.key("WAITING", ONE)), "no claim can see it"),
    ]


@pytest.mark.parametrize("which", range(3))
def test_the_audit_sees_damage(redis_client: Redis, which: int) -> None:
    bench = Bench(redis_client)
    begin(bench, hosts=3, each=2, concurrency=1)
    settle(bench)
    harm, text = damages(bench)[which]
    harm()
    assert text in "\n".join(bench.frontier.audit())


@pytest.mark.parametrize("seed", seeds(4, 12))
def test_any_order_of_events_keeps_the_numbers(make_bench: Any, seed: int) -> None:
    """Random claims, results, moves and cancels: after each, the audit finds nothing; at the end,
    all requests have ended."""
    bench, chance = make_bench(store=PartitionedStore), random.Random(seed)
    concurrency = chance.choice([0, 1, 2, 5])
    begin(bench, 12, 4, concurrency, chance.choice([0, 1]) or int(not concurrency))
    begin(bench, 12, 2, 3, task=2)
    begin(bench, 12, 2, task=3)  # without such limits
    flying: dict[bytes, Claimed] = {}
    tasks = {task: bench.frontier.counts_of([task])[task].nr for task in (1, 2, 3)}
    for step in range(2_000):
        event = chance.random()
        address = f"192.0.2.{chance.randrange(3)}"
        if event < 0.5 or not flying:
            for one in bench.claim(chance.randrange(1, 20)):
                if one.homeless:
                    bench.frontier.release(NODE, [one.given_back(0, at(address))])
                else:
                    flying[one.rid] = one
        else:
            one = flying.pop(chance.choice([*flying]))
            signal = at(address if chance.random() < 0.2 else "")
            if event < 0.6:
                bench.frontier.release(NODE, [one.given_back(0, signal)])
            elif event < 0.65:
                bench.frontier.retry(NODE, [one.given_back(1, signal)])
            elif event < 0.75:
                bench.sequences[NODE] += 1
                fetched = [FreedSlot(one.rid, one.host, one.claim, signal)]
                claim = bench.frontier.claim(NODE, bench.sequences[NODE], 0, fetched)
                assert claim.requests == []
                bench.complete_all([one])
            else:
                bench.complete_all([one])
        if step == 300 and chance.random() < 0.3:
            bench.frontier.cancel(1)
        assert bench.frontier.audit() == [], f"after step {step}"
        counts = bench.frontier.counts_of([*tasks])
        if all(counts[task].nr == 0 for task in tasks):
            break
    else:
        raise AssertionError(f"{counts} remain")
    for name in (b"ip:*", b"iw:*"):
        keys = bench.redis.keys(bench.key("TASKS").removesuffix("tasks").encode() + name)
        kept = {key for key in keys if bench.redis.pttl(key) == -1}
        assert not kept, [bench.redis.hgetall(key) for key in kept]  # each expires


def test_partitions_are_separate(make_bench: Any, redis_client: Redis) -> None:
    bench = make_bench(partitions=2)
    begin(bench, hosts=12, each=2, concurrency=1)
    assert len(settle(bench)) == 2  # one in each
    assert bench.frontier.audit() == []


@pytest.mark.parametrize("value", ["junk", -5])
def test_an_impossible_number_of_slots_is_replaced(bench: Bench, value: object) -> None:
    begin(bench, hosts=2, each=9, concurrency=3)
    flying = settle(bench)
    bench.redis.hset(bench.key("ADDRESS", ONE), "a", value)
    bench.complete_all(flying[:1])
    assert slots(bench) == 0
    more = bench.claim()
    assert len(more) == slots(bench) == 3
    bench.redis.hset(bench.key("ADDRESS", ONE), "a", value)
    bench.complete_all(more[:2])
    assert len(bench.claim()) == 3
    bench.redis.flushall()  # the audit would find the uncounted requests


@pytest.mark.parametrize("value", ["junk", -5])
def test_an_impossible_number_of_slots_counts_as_none(bench: Bench, value: object) -> None:
    begin(bench, hosts=2, each=9, concurrency=3)
    settle(bench)
    bench.redis.hset(bench.key("ADDRESS", ONE), "a", value)
    bench.redis.zadd(bench.key("HOSTS"), {f"@{ONE}": 0})
    assert len(bench.claim()) == slots(bench) == 3
    bench.redis.flushall()  # the audit would find the uncounted requests


@pytest.mark.parametrize("end", ["retry", "park", "fetched"])
def test_an_address_does_not_wait_for_what_will_not_be_sent(bench: Bench, end: str) -> None:
    begin(bench, hosts=2, each=1, delay=20)
    lost = [one.given_back(0, at(ONE)) for one in bench.claim_unsent()]
    bench.frontier.release(NODE, lost)
    (one,) = bench.claim_unsent()
    assert bench.claim_unsent() == []
    if end == "retry":
        bench.retry(one, EVER)
    elif end == "park":
        bench.park(one)
    else:
        bench.claim(0, fetched=[one])
    time.sleep(0.05)
    (other,) = bench.claim()
    assert other.host != one.host
