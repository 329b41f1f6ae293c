"""Proxies: which proxy of the pool a claimed request gets, and the limits of each at each host."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from crawlframe.frontier import Claimed, TaskLimits
from crawlframe.frontier.client.records import (
    ANSWERED,
    BLOCKED,
    FAULT,
    LOGIN,
    PROXY_FAILED,
    QUOTA,
    REFUSED,
    SENT,
    UNREACHABLE,
    FreedSlot,
    Signal,
)
from crawlframe.frontier.proxies import PooledProxy
from crawlframe.proxies.place import host_in, pair_of, place_of
from crawlframe.request.request import Admission

from .bench import NODE, Bench

HOST = "a.example"
EVER = 3_600_000  # ms: a delay that does not end during a test


def publish(bench: Bench, *proxies: PooledProxy, version: str = "1") -> None:
    bench.frontier.proxies.publish(version, proxies)


def pool(n: int, **fields: Any) -> list[PooledProxy]:
    return [PooledProxy(number, **fields) for number in range(1, n + 1)]


def prove(bench: Bench, *proxies: int) -> None:
    """Marks proxies as working: they may have any number of requests in flight."""
    for proxy in proxies:
        for partition in range(bench.store.partitions):
            bench.redis.hset(bench.key("PROXY", proxy, partition), "ok", 1)


def begin(
    bench: Bench,
    requests: int,
    *hosts: str,
    route: str = "pool",
    task: int = 1,
    prefix: str = "",
    **limits: Any,
) -> None:
    links: list[Admission] = [
        bench.request(f"{prefix}{host}/{n}", place_of(host, route), task=task)
        for host in hosts or (HOST,)
        for n in range(requests)
    ]
    bench.frontier.open_task(task, TaskLimits(**{"concurrency": 8, **limits}), links)


def over(bench: Bench, *requests: Claimed, signal: Signal | None = None) -> None:
    """Their fetches have ended, with this signal."""
    signal = signal or Signal(ANSWERED, 5)
    bench._claim(NODE, 0, [FreedSlot(one.rid, one.host, one.claim, signal) for one in requests])
    assert bench.frontier.audit() == []


def done(bench: Bench, *requests: Claimed, signal: Signal | None = None) -> None:
    over(bench, *requests, signal=signal)
    bench.complete_all(requests)
    assert bench.frontier.audit() == []


def proxies_of(claimed: list[Claimed]) -> list[int]:
    return sorted(one.proxy for one in claimed)


def test_each_proxy_has_the_delay_of_the_host(bench: Bench) -> None:
    publish(bench, *pool(3))
    begin(bench, 10, delay=EVER)
    claimed = bench.claim_all()
    assert proxies_of(claimed) == [1, 2, 3]
    assert all(one.due is not None for one in claimed)
    done(bench, *claimed)
    assert bench.claim_all() == []
    assert bench.wait > 0


def test_the_delay_counts_from_when_the_request_was_sent(bench: Bench) -> None:
    publish(bench, *pool(1))
    begin(bench, 2, delay=1000)
    (first,) = bench.claim_unsent()
    assert bench.claim_unsent() == []
    bench.after(bench.now() + 20)
    before = bench.now()
    bench.report_sent(first, ago=5)
    (due,) = bench.redis.hmget(bench.key("HOST", pair_of(HOST, 1)), "n")
    assert before + 995 <= float(due) <= bench.now() + 996
    done(bench, first)


def test_a_request_that_was_never_reported_as_sent_pays_from_its_end(bench: Bench) -> None:
    publish(bench, *pool(1))
    begin(bench, 2, delay=1000)
    (first,) = bench.claim_unsent()
    before = bench.now()
    done(bench, first)
    assert float(bench.redis.hget(bench.key("HOST", pair_of(HOST, 1)), "n")) >= before + 1000
    assert bench.claim_unsent() == []


def test_hosts_do_not_share_the_delay_of_a_proxy(bench: Bench) -> None:
    publish(bench, *pool(2))
    begin(bench, 5, "a.example", "b.example", "c.example", delay=EVER)
    found = Counter((host_in(one.host), one.proxy) for one in bench.claim_all())
    assert found == {(f"{name}.example", proxy): 1 for name in "abc" for proxy in (1, 2)}


def test_without_a_delay_the_concurrency_holds_for_each_proxy(bench: Bench) -> None:
    publish(bench, *pool(2))
    prove(bench, 1, 2)
    begin(bench, 20, concurrency=3)
    claimed = bench.claim_all()
    assert Counter(proxies_of(claimed)) == {1: 3, 2: 3}
    done(bench, claimed[0])
    (more,) = bench.claim_all()
    assert more.proxy == claimed[0].proxy


def test_limits_may_hold_over_all_proxies(bench: Bench) -> None:
    publish(bench, *pool(5))
    begin(bench, 20, route="all;pool", concurrency=3)
    claimed = bench.claim_all()
    assert len(claimed) == 3
    assert len({one.proxy for one in claimed}) == 3


def test_a_delay_may_hold_over_all_proxies(bench: Bench) -> None:
    publish(bench, *pool(5))
    begin(bench, 20, route="all;pool", delay=EVER)
    (one,) = bench.claim_all()
    assert one.proxy > 0
    assert one.due is not None
    done(bench, one)
    assert bench.claim_all() == []


def test_a_limit_of_a_proxy_holds_over_all_hosts(bench: Bench) -> None:
    publish(bench, *pool(1, most=2))
    prove(bench, 1)
    begin(bench, 3, "a.example", "b.example", "c.example")
    claimed = bench.claim_all()
    assert len(claimed) == 2
    done(bench, claimed[0])
    assert len(bench.claim_all()) == 1


def test_a_proxy_that_has_not_answered_yet_gets_few_requests(bench: Bench) -> None:
    publish(bench, *pool(1))
    begin(bench, 10, "a.example", "b.example")
    first = bench.claim_all()
    assert len(first) == 3
    done(bench, first[0])
    assert len(bench.claim_all()) == 16 - 2  # eight at each host, and two still run


@pytest.mark.parametrize(
    ("route", "expected"),
    [
        ("pool", [1, 2, 3]),
        ("pool:eu", [1, 2]),
        ("pool:eu,fast", [2]),
        ("pool:country=DE", [1]),
        ("pool:country=US,fast", [3]),
        ("pool:nothing", []),
    ],
)
def test_a_choice_names_tags_and_country(bench: Bench, route: str, expected: list[int]) -> None:
    publish(
        bench,
        PooledProxy(1, country="DE", tags=("eu",)),
        PooledProxy(2, country="FR", tags=("eu", "fast")),
        PooledProxy(3, country="US", tags=("fast",)),
    )
    begin(bench, 9, route=route, delay=EVER)
    assert proxies_of(bench.claim_all()) == expected


def test_choices_share_what_a_proxy_may_do_at_a_host(bench: Bench) -> None:
    publish(bench, PooledProxy(1, tags=("eu",)), PooledProxy(2))
    begin(bench, 3, route="pool:eu", delay=EVER)
    begin(bench, 3, route="pool", delay=EVER, task=2, prefix="2 ")
    assert proxies_of(bench.claim_all()) == [1, 2]


def test_requests_wait_until_there_is_a_pool(bench: Bench) -> None:
    begin(bench, 2)
    assert bench.claim_all() == []
    assert bench.wait > 0
    publish(bench, *pool(1))
    bench.redis.zadd(bench.key("HOSTS"), {place_of(HOST, "pool"): 0})
    assert len(bench.claim_all()) == 2


def test_a_proxy_that_leaves_the_pool_is_not_used(bench: Bench) -> None:
    publish(bench, *pool(3))
    publish(bench, *pool(1), version="2")
    begin(bench, 9, delay=EVER)
    assert proxies_of(bench.claim_all()) == [1]


def test_a_block_keeps_a_proxy_from_this_host_only(bench: Bench) -> None:
    publish(bench, *pool(2))
    begin(bench, 6, "a.example", "b.example", concurrency=1)
    claimed = bench.claim_all()
    assert len(claimed) == 4
    blocked = next(one for one in claimed if host_in(one.host) == "a.example")
    done(bench, blocked, signal=Signal(BLOCKED))
    done(bench, *(one for one in claimed if one is not blocked))
    found = Counter((host_in(one.host), one.proxy) for one in bench.claim_all())
    assert ("a.example", blocked.proxy) not in found
    assert len(found) == 3
    state = bench.frontier.proxies.at("a.example", [1, 2])[blocked.proxy]
    assert state.why == "blocked"
    assert state.resting_until > bench.now() / 1000 + 30
    assert bench.frontier.hosts.held() == {}


def test_pauses_after_blocks_grow(bench: Bench) -> None:
    publish(bench, *pool(1))
    begin(bench, 6, concurrency=1)
    pauses = []
    for _ in range(3):
        key = bench.key("HOST", pair_of(HOST, 1))
        bench.redis.hset(key, "r", 1)
        bench.redis.delete(bench.key("BUSY", HOST))
        bench.redis.zadd(bench.key("HOSTS"), {place_of(HOST, "pool"): 0})
        (one,) = bench.claim_all()
        done(bench, one, signal=Signal(BLOCKED))
        pauses.append(round((int(bench.redis.hget(key, "r")) - bench.now()) / 60_000))
    assert pauses == [1, 2, 4]


def test_a_refusal_rests_one_proxy_for_as_long_as_was_asked(bench: Bench) -> None:
    publish(bench, *pool(2))
    begin(bench, 6, concurrency=1)
    first, second = bench.claim_all()
    done(bench, first, signal=Signal(REFUSED, EVER))
    done(bench, second)
    (third,) = bench.claim_all()
    assert third.proxy == second.proxy


@pytest.mark.parametrize("signal", [Signal(PROXY_FAILED, FAULT), Signal(PROXY_FAILED, LOGIN)])
def test_a_proxy_is_out_after_three_failures(bench: Bench, signal: Signal) -> None:
    publish(bench, *pool(2))
    begin(bench, 30, concurrency=1)
    uses: Counter[int] = Counter()
    for _ in range(8):
        for one in bench.claim_all():
            uses[one.proxy] += 1
            done(bench, one, signal=signal if one.proxy == 1 else None)
    assert uses[1] == 3
    assert uses[2] >= 8
    assert bench.frontier.proxies.out() == {1}


def test_failures_of_the_proxy_are_not_the_hosts(bench: Bench) -> None:
    publish(bench, *pool(2))
    begin(bench, 30, concurrency=1)
    for _ in range(3):
        for one in bench.claim_all():
            done(bench, one, signal=Signal(PROXY_FAILED, FAULT) if one.proxy == 1 else None)
    state = bench.frontier.hosts.states([HOST])[HOST]
    assert state.failures == 0
    assert state.closed_until == 0


def test_a_dead_proxy_is_used_three_times_however_many_hosts_wait(bench: Bench) -> None:
    publish(bench, *pool(2))
    hosts = [f"h{n}.example" for n in range(8)]
    begin(bench, 3, *hosts)
    uses = 0
    for _ in range(20):
        claimed = bench.claim_all()
        uses += sum(one.proxy == 1 for one in claimed)
        for one in claimed:
            done(bench, one, signal=Signal(PROXY_FAILED, FAULT) if one.proxy == 1 else None)
    assert uses == 3
    assert bench.counts().nr == 0


@pytest.mark.parametrize("signal", [Signal(UNREACHABLE), Signal(PROXY_FAILED, 0)])
def test_what_may_be_the_hosts_fault_counts_once_for_each_host(
    bench: Bench, signal: Signal
) -> None:
    publish(bench, *pool(1))
    prove(bench, 1)
    begin(bench, 5, "a.example", concurrency=5)
    for one in bench.claim_all():
        done(bench, one, signal=signal)
    assert bench.frontier.proxies.out() == set()
    begin(bench, 1, "b.example", "c.example", task=2)
    for one in bench.claim_all():
        done(bench, one, signal=signal)
    assert bench.frontier.proxies.out() == {1}


def test_an_answer_ends_a_row_of_failures(bench: Bench) -> None:
    publish(bench, *pool(1))
    begin(bench, 9, concurrency=1)
    failed = Signal(PROXY_FAILED, FAULT)
    for signal in (failed, failed, None, failed, failed, None):
        (one,) = bench.claim_all()
        done(bench, one, signal=signal)
    assert bench.frontier.proxies.out() == set()


def test_a_login_that_is_refused_is_known_until_an_answer(bench: Bench) -> None:
    publish(bench, *pool(1))
    begin(bench, 9, concurrency=1)
    for signal, known in (
        (Signal(PROXY_FAILED, LOGIN), True),
        (Signal(UNREACHABLE), False),
        (Signal(PROXY_FAILED, LOGIN), True),
    ):
        (one,) = bench.claim_all()
        done(bench, one, signal=signal)
        assert bench.frontier.proxies.use([1])[1].login is known
        bench.redis.hdel(bench.key("HOST", pair_of(HOST, 1)), "r")  # it need not rest
        bench.redis.delete(bench.key("BUSY", HOST))
    publish(bench, *pool(1, life=1), version="next life")
    assert bench.frontier.proxies.use([1])[1].login, "nothing has shown yet that it is good"
    bench.redis.zadd(bench.key("HOSTS"), {place_of(HOST, "pool"): 0})
    (one,) = bench.claim_all()
    done(bench, one)
    assert not bench.frontier.proxies.use([1])[1].login


def test_another_life_brings_a_proxy_back(bench: Bench) -> None:
    publish(bench, *pool(1))
    begin(bench, 9, concurrency=1)
    for _ in range(3):
        (one,) = bench.claim_all()
        done(bench, one, signal=Signal(PROXY_FAILED, FAULT))
    assert bench.claim_all() == []
    publish(bench, *pool(1), version="same life")
    assert bench.frontier.proxies.out() == {1}
    publish(bench, *pool(1, life=1), version="next life")
    assert bench.frontier.proxies.out() == set()
    bench.redis.zadd(bench.key("HOSTS"), {place_of(HOST, "pool"): 0})
    assert proxies_of(bench.claim_all()) == [1]


def test_a_lost_answer_names_the_same_proxies(bench: Bench) -> None:
    publish(bench, *pool(4))
    begin(bench, 9, delay=EVER)
    frontier = bench.frontier
    once = frontier.claim(NODE, 1, 9)
    again = frontier.claim(NODE, 1, 9)
    assert [one.proxy for one in again.requests] == [one.proxy for one in once.requests]
    assert all(again.requests)


@pytest.mark.parametrize("way", ["complete", "retry", "release", "park", "replay"])
def test_however_a_request_is_given_up_its_proxy_is_free(bench: Bench, way: str) -> None:
    publish(bench, *pool(1, most=1))
    begin(bench, 2, concurrency=1)
    (one,) = bench.claim_all()
    bench.give_up(one, way)
    assert bench.frontier.proxies.use([1])[1].in_flight == 0
    assert bench.frontier.audit() == []
    generation = 2
    assert proxies_of(bench.claim_all(generation=generation)) == [1]


def test_the_adaptive_rate_is_that_of_each_proxy(bench: Bench) -> None:
    publish(bench, *pool(3))
    begin(bench, 9, adaptive=True)
    claimed = bench.claim_all()
    assert proxies_of(claimed) == [1, 2, 3]  # one a second each, at first
    done(bench, *claimed)
    for proxy in (1, 2, 3):
        assert bench.redis.hexists(bench.key("HOST", pair_of(HOST, proxy)), "g")


def test_orders_for_the_host_hold_through_proxies(bench: Bench) -> None:
    from crawlframe.frontier.hosts import HostOrder

    publish(bench, *pool(3))
    begin(bench, 9)
    bench.frontier.hosts.order(HOST, HostOrder(paused=True))
    assert bench.claim_all() == []
    bench.frontier.hosts.order(HOST, HostOrder(delay=3600))
    bench.redis.zadd(bench.key("HOSTS"), {place_of(HOST, "pool"): 0})
    assert proxies_of(bench.claim_all()) == [1, 2, 3]


def test_one_request_brings_the_robots_txt(bench: Bench) -> None:
    publish(bench, *pool(3))
    begin(bench, 9, robots=True)
    (one,) = bench.claim_all()
    bench.frontier.hosts.robots(HOST, bench.now() / 1000 + 3600)
    done(bench, one)
    assert len(bench.claim_all()) > 3


def test_a_task_that_is_cancelled_needs_no_proxy(bench: Bench) -> None:
    publish(bench)
    begin(bench, 3)
    bench.begin_cancel(1)
    bench.redis.zadd(bench.key("HOSTS"), {place_of(HOST, "pool"): 0})
    claimed = bench.claim_all()
    assert proxies_of(claimed) == [0, 0, 0]


def test_a_session_stays_with_one_proxy_until_it_is_blocked(bench: Bench) -> None:
    publish(bench, *pool(10))
    begin(bench, 9, route="pool#1.login", concurrency=1)
    used = []
    for _ in range(4):
        (one,) = bench.claim_all()
        used.append(one.proxy)
        done(bench, one)
    assert len(set(used)) == 1
    (one,) = bench.claim_all()
    done(bench, one, signal=Signal(BLOCKED))
    (other,) = bench.claim_all()
    assert other.proxy != one.proxy
    done(bench, other)
    (same,) = bench.claim_all()
    assert same.proxy == other.proxy


def tiered(bench: Bench) -> None:
    publish(bench, PooledProxy(1, tier=0), PooledProxy(2, tier=0), PooledProxy(3, tier=1))


def test_the_cheapest_tier_is_used(bench: Bench) -> None:
    tiered(bench)
    begin(bench, 9, delay=EVER)
    assert proxies_of(bench.claim_all()) == [1, 2]


def test_a_tier_that_is_blocked_makes_room_for_the_next(bench: Bench) -> None:
    tiered(bench)
    begin(bench, 30, "a.example", "b.example", concurrency=1)
    for _ in range(3):
        for one in bench.claim_all():
            cheap = one.proxy != 3
            bad = cheap and host_in(one.host) == "a.example"
            done(bench, one, signal=Signal(BLOCKED) if bad else None)
    claimed = bench.claim_all()
    assert {(host_in(one.host), one.proxy) for one in claimed} == {
        ("a.example", 3), ("b.example", 1), ("b.example", 2),
    }  # fmt: skip


def test_a_cheaper_tier_is_tried_again(bench: Bench) -> None:
    tiered(bench)
    begin(bench, 30, concurrency=1)
    place = place_of(HOST, "pool")
    bench.redis.hset(bench.key("HOST", place), mapping={"l": 1, "lt": 1})
    claimed = bench.claim_all()
    assert len(claimed) == 2  # one for the trial
    (trial,) = (one for one in claimed if one.proxy != 3)
    done(bench, *claimed)
    assert trial.proxy in (1, 2)
    assert proxies_of(bench.claim_all()) == [1, 2]


def test_a_large_pool_is_gone_round(bench: Bench) -> None:
    publish(bench, *pool(300))
    begin(bench, 300, delay=EVER)
    claimed: list[Claimed] = []
    for _ in range(200):
        claimed += bench.claim()
        if len(claimed) == 300:
            break
        bench.redis.zadd(bench.key("HOSTS"), {place_of(HOST, "pool"): 0})
    assert proxies_of(claimed) == [*range(1, 301)]


def test_partitions_share_the_limit_of_a_proxy(make_bench: Any) -> None:
    bench = make_bench(partitions=2)
    publish(bench, *pool(1, most=3))
    shares = [int(bench.redis.hget(bench.key("PROXY", 1, part), "m")) for part in (0, 1)]
    assert shares == [2, 1]
    assert bench.frontier.proxies.versions() == ["1", "1"]


def test_a_place_is_in_the_partition_of_its_host(make_bench: Any) -> None:
    bench = make_bench(partitions=4)
    for n in range(20):
        host = f"h{n}.example"
        assert bench.store.partition_of(host) == bench.store.partition_of(place_of(host, "pool:eu"))


def test_no_request_is_sent_early_by_a_report_of_another_one(bench: Bench) -> None:
    publish(bench, *pool(1))
    begin(bench, 3, delay=1000)
    (first,) = bench.claim_unsent()
    stranger = FreedSlot(first.rid, first.host, first.claim + 7, Signal(SENT, 900))
    bench._claim(NODE, 0, [stranger])
    assert bench.claim_unsent() == []
    done(bench, first)


def test_a_shorter_delay_holds_at_once(bench: Bench) -> None:
    publish(bench, *pool(2))
    begin(bench, 9, delay=EVER)
    done(bench, *bench.claim_all())
    assert bench.claim_all() == []
    bench.frontier.set_limits(1, TaskLimits(delay=0, concurrency=8))
    assert len(bench.claim_all()) == 7


def test_a_fetch_beside_the_queue_pays_for_its_pair(bench: Bench) -> None:
    publish(bench, *pool(1))
    begin(bench, 3, concurrency=1)
    permits, pair = bench.frontier.permits, pair_of(HOST, 1)
    assert permits.ask(NODE, 1, pair, b"token", 60_000, 1000).given
    assert bench.claim_all() == []
    permits.end(NODE, 1, pair, b"token", Signal(ANSWERED, 5))
    bench.redis.zadd(bench.key("HOSTS"), {place_of(HOST, "pool"): 0})
    assert len(bench.claim_all()) == 1


def test_what_is_known_of_proxies_outlives_an_era(bench: Bench) -> None:
    publish(bench, *pool(2))
    begin(bench, 6, concurrency=1)
    first, second = bench.claim_all()
    done(bench, first, signal=Signal(BLOCKED))
    done(bench, second)
    bench.frontier.eras.begin(1)
    bench.frontier.eras.wipe()
    assert bench.frontier.proxies.versions() == [""]
    publish(bench, *pool(2))
    begin(bench, 6, concurrency=1, task=2, prefix="2 ")
    bench.frontier.eras.open()
    assert proxies_of(bench.claim_all()) == [second.proxy]


def test_what_a_proxy_has_done_at_a_host(bench: Bench) -> None:
    publish(bench, *pool(1))
    begin(bench, 9, concurrency=1)
    seen = []
    for signal in (
        Signal(REFUSED, -1),
        Signal(ANSWERED, 100),
        Signal(ANSWERED, -1),  # an error of the server: its time says nothing
        Signal(ANSWERED, 180),
        Signal(QUOTA, 0),
    ):
        (one,) = bench.claim_all()
        before = bench.now()
        done(bench, one, signal=signal)
        use = bench.frontier.proxies.uses([(HOST, 1)])[HOST, 1]
        assert before <= 1000 * use.used_at <= bench.now()
        seen.append((use.latency_ms, use.errors))
        bench.redis.hdel(bench.key("HOST", pair_of(HOST, 1)), "r", "n")
        bench.redis.delete(bench.key("BUSY", HOST))
        bench.redis.zadd(bench.key("HOSTS"), {place_of(HOST, "pool"): 0})
    assert seen == [(None, 1), (100, 1), (100, 1), (110, 1), (110, 1)]


def test_what_is_known_of_a_pair_is_forgotten_in_time(bench: Bench) -> None:
    publish(bench, *pool(2))
    begin(bench, 4, concurrency=1)
    first, second = bench.claim_all()
    pairs = {one: bench.key("HOST", pair_of(HOST, one.proxy)) for one in (first, second)}
    assert bench.redis.pttl(pairs[first]) == -1, "it is in flight"
    assert 0 < bench.redis.pttl(bench.key("BUSY", HOST)) <= 600_000
    done(bench, first, signal=Signal(BLOCKED))
    done(bench, second)
    (until,) = bench.redis.hmget(pairs[first], "r")
    rests = float(until) - bench.now()
    assert bench.redis.pttl(bench.key("BUSY", HOST)) > rests
    assert bench.redis.pttl(pairs[first]) > rests
    assert not bench.redis.exists(pairs[second]), "nothing holds it up"


def test_a_place_that_all_proxies_have_no_room_for_is_asked_when_one_has(bench: Bench) -> None:
    publish(bench, *pool(1, most=1))
    prove(bench, 1)
    begin(bench, 2, "a.example", "b.example", "c.example")
    (one,) = bench.claim_all()
    stalled = bench.key("STALLED")
    before = bench.redis.zcard(stalled)
    assert before >= 1
    over(bench, one)
    assert bench.redis.zcard(stalled) <= before  # one place has been asked instead
    seen = [host_in(one.host)]
    bench.complete_all([one])
    for _ in range(5):
        (one,) = bench.claim_all()
        seen.append(host_in(one.host))
        done(bench, one)
    assert Counter(seen) == dict.fromkeys(("a.example", "b.example", "c.example"), 2)
    assert bench.redis.zcard(stalled) == 0


def test_the_uses_of_a_host_are_bounded(bench: Bench) -> None:
    publish(bench, *pool(1))
    begin(bench, 2, concurrency=1)
    used, now = bench.key("USED", HOST), int(bench.now())
    before = {str(n): f"{now - n} 5 0" for n in range(10, 1008)}
    bench.redis.hset(used, mapping={**before, "t pool": 2})
    done(bench, *bench.claim_all())
    assert len(bench.frontier.proxies.used_at(HOST).pairs) == 999
    bench.redis.hset(used, "9", f"{now - 9} 5 0")
    done(bench, *bench.claim_all())  # one too many: the newer half stays
    found = bench.frontier.proxies.used_at(HOST)
    assert {*found.pairs} == {1, *range(9, 508)}
    assert found.tiers == {"pool": 2}
    assert 0 < bench.redis.pttl(used) <= 24 * 3_600_000


def test_uses_of_the_day_before_are_forgotten_first(bench: Bench) -> None:
    publish(bench, *pool(1))
    begin(bench, 1)
    used, now = bench.key("USED", HOST), int(bench.now())
    old = now - 25 * 3_600_000
    bench.redis.hset(used, mapping={str(n): f"{old} 5 0" for n in range(300, 1300)})
    bench.redis.hset(used, mapping={str(n): f"{now} 5 0" for n in range(10, 20)})
    done(bench, *bench.claim_all())
    assert {*bench.frontier.proxies.used_at(HOST).pairs} == {1, *range(10, 20)}


# -- no proxy --------------------------------------------------------------------------------------


def lacking(bench: Bench) -> list[str]:
    return [lack.place for lack in bench.frontier.proxies.lacking(100)]


@pytest.mark.parametrize("proxies", [None, [], [PooledProxy(1, tags=("us",))]])
def test_a_place_that_no_proxy_fits_is_noted_until_one_does(
    bench: Bench, proxies: list[PooledProxy] | None
) -> None:
    if proxies is not None:
        publish(bench, *proxies)
    begin(bench, 2, route="pool:eu")
    before = bench.now()
    assert bench.claim_all() == []
    (lack,) = bench.frontier.proxies.lacking(100)
    assert (lack.place, before <= 1000 * lack.since) == (f"{HOST}|pool:eu", True)
    bench.after(bench.now() + 10)
    bench.redis.zadd(bench.key("HOSTS"), {lack.place: 0})
    assert bench.claim_all() == []
    assert bench.frontier.proxies.lacking(100) == [lack]  # since then
    publish(bench, PooledProxy(2, tags=("eu",)), version="2")
    bench.redis.zadd(bench.key("HOSTS"), {lack.place: 0})
    done(bench, *bench.claim_all())
    assert lacking(bench) == []


def test_so_is_one_where_all_rest_for_long(bench: Bench) -> None:
    publish(bench, *pool(2))
    prove(bench, 1, 2)
    begin(bench, 9, concurrency=1)
    assert lacking(bench) == []
    for one in bench.claim_all():
        done(bench, one, signal=Signal(BLOCKED))
    assert bench.claim_all() == []
    assert lacking(bench) == [f"{HOST}|pool"]


def test_what_waits_no_longer_is_forgotten(bench: Bench) -> None:
    begin(bench, 1)
    assert bench.claim_all() == []
    assert lacking(bench) == [f"{HOST}|pool"]
    lanes = bench.key("LANES", f"{HOST}|pool")
    bench.redis.rename(lanes, "aside")
    assert lacking(bench) == []
    assert not bench.redis.exists(bench.key("LACKING"))
    bench.redis.rename("aside", lanes)


def test_a_busy_proxy_is_no_lack(bench: Bench) -> None:
    publish(bench, *pool(1, most=1))
    prove(bench, 1)
    begin(bench, 3, delay=EVER)
    assert len(bench.claim_all()) == 1
    assert lacking(bench) == []
