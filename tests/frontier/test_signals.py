"""Signals: outcomes of fetches about their host hold for all nodes and tasks, and count once."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from redis import Redis

from crawlframe.frontier import Claimed, Completion, FreedSlot, Frontier
from crawlframe.frontier.client.partitions import PartitionedStore
from crawlframe.frontier.client.records import (
    ANSWERED,
    BLOCKED,
    NEVER_SENT,
    QUOTA,
    REFUSED,
    SENT,
    UNREACHABLE,
    UNSENT,
    Signal,
    TaskLimits,
)
from crawlframe.frontier.frontier import REFUSAL
from crawlframe.frontier.hosts import HostState
from crawlframe.frontier.proxies import PooledProxy
from tests.frontier.bench import Bench

HOST = "a.example"
NO_TIME = -1  # the server names none
HOUR = 3_600_000  # ms


def tell(bench: Bench, kind: int, ms: int, *requests: Claimed, generation: int = 1) -> None:
    """A node reports that these fetches are over, with this signal."""
    bench.sequences[generation] += 1
    over = [FreedSlot(one.rid, one.host, one.claim, Signal(kind, ms)) for one in requests]
    bench.frontier.claim(generation, bench.sequences[generation], 0, over)


def state(bench: Bench) -> HostState:
    found: HostState = bench.frontier.hosts.states([HOST])[HOST]
    return found


def rest(bench: Bench) -> float:
    """Seconds that the host still rests."""
    return max(0.0, state(bench).closed_until - time.time())


def recover(bench: Bench) -> None:
    """The rest is over."""
    bench.redis.hset(bench.key("HOST", HOST), "r", 1)
    bench.redis.zadd(bench.key("HOSTS"), {HOST: 1}, xx=True)


def trial(bench: Bench, kind: int, ms: int = 5) -> None:
    """Fetches the next request after a rest, with this signal."""
    recover(bench)
    (one,) = bench.claim()
    tell(bench, kind, ms, one)
    bench.frontier.release(1, [one.given_back()])


def test_a_refusal_seen_by_one_node_stops_the_host_for_all(redis_client: Redis) -> None:
    one, other = (Frontier(PartitionedStore(redis_client)) for _ in range(2))
    bench = Bench(redis_client)
    one.open_task(1, TaskLimits(), bench.requests(9))
    other.open_task(2, TaskLimits(), bench.requests(9, task=2))
    (held,) = one.claim(1, 1, 1).requests
    one.claim(1, 2, 0, [FreedSlot(held.rid, HOST, held.claim, Signal(REFUSED, NO_TIME))])
    claim = other.claim(2, 1, 9)
    assert claim.requests == []
    assert 0 < claim.wait <= 200


def test_the_host_rests_until_the_named_instant_however_far(bench: Bench) -> None:
    bench.open(*bench.requests(3))
    tell(bench, REFUSED, 7000, *bench.claim(1))
    assert 6 < rest(bench) <= 7
    assert (state(bench).why, bench.frontier.hosts.held()) == ("refused", {})
    assert bench.claim() == []


def test_few_requests_that_an_api_still_allows_go_one_at_a_time(bench: Bench) -> None:
    bench.open(*bench.requests(9))
    tell(bench, QUOTA, 7000, *bench.claim(1))
    assert 6 < rest(bench) <= 7
    assert (state(bench).why, bench.claim(), bench.frontier.hosts.held()) == ("quota", [], {})
    recover(bench)
    (one,) = bench.claim(9)
    tell(bench, QUOTA, 9000, one)  # it is ended by an answer that says so again
    assert 8 < rest(bench) <= 9
    trial(bench, ANSWERED)
    assert (state(bench).why, rest(bench)) == ("", 0)
    assert len(bench.claim_all()) > 1


def test_the_answer_that_allows_the_least_counts(bench: Bench) -> None:
    bench.open(*bench.requests(9))
    for one, ms in zip(bench.claim(3), (5000, 9000, 6000), strict=True):
        tell(bench, QUOTA, ms, one)
    assert 8 < rest(bench) <= 9


def test_a_quota_says_nothing_of_a_host_that_refuses(bench: Bench) -> None:
    bench.open(*bench.requests(9))
    first, second = bench.claim(2)
    tell(bench, REFUSED, 7000, first)
    tell(bench, QUOTA, 9000, second)
    assert state(bench).why == "refused"
    assert 8 < rest(bench) <= 9
    trial(bench, REFUSED, 100)
    assert state(bench).why == "refused"


def test_an_operator_is_told_of_a_quota_that_is_spent_for_long(bench: Bench) -> None:
    bench.open(*bench.requests(3))
    tell(bench, QUOTA, 2 * HOUR, *bench.claim(1))
    assert [*bench.frontier.hosts.held()] == [HOST]


def test_an_operator_is_told_of_a_rest_of_more_than_an_hour(bench: Bench) -> None:
    bench.open(*bench.requests(3))
    tell(bench, REFUSED, 300 * 24 * HOUR, *bench.claim(1))
    assert rest(bench) > 299 * 24 * 3600
    ((host, (why, until)),) = bench.frontier.hosts.held().items()
    assert (host, why) == (HOST, "asked")
    assert until == pytest.approx(time.time() + 300 * 24 * 3600, abs=9)
    bench.frontier.hosts.resume(HOST)
    assert (bench.frontier.hosts.held(), len(bench.claim_all())) == ({}, 2)


def test_rests_double_and_an_answer_ends_them(bench: Bench) -> None:
    bench.open(*bench.requests(9))
    tell(bench, REFUSED, NO_TIME, *bench.claim(1))
    assert 0 < rest(bench) <= 0.2
    for least in (0.2, 0.4, 0.8, 1.6, 3.2, 6.4):
        trial(bench, REFUSED, NO_TIME)
        assert least < rest(bench) <= 2 * least
    trial(bench, REFUSED, NO_TIME)
    assert 9 < rest(bench) <= 10  # no more while it has failed for less than 40 s
    bench.redis.hset(bench.key("HOST", HOST), "s", round(1000 * time.time()) - HOUR)
    trial(bench, REFUSED, NO_TIME)
    assert 10 < rest(bench) <= 52  # but more when it has failed for an hour
    for _ in range(5):
        trial(bench, REFUSED, NO_TIME)
    assert 299 < rest(bench) <= 300
    trial(bench, ANSWERED)
    assert (rest(bench), state(bench).failures, state(bench).trial) == (0, 0, False)
    assert len(bench.claim()) == 8


def test_after_a_rest_one_request_is_a_trial(bench: Bench) -> None:
    bench.open(*bench.requests(9))
    tell(bench, REFUSED, NO_TIME, *bench.claim(1))
    recover(bench)
    (first,) = bench.claim()
    assert bench.claim() == []
    tell(bench, ANSWERED, 5, first)
    assert len(bench.claim()) == 7


def test_the_trial_of_a_node_that_died_is_made_again(bench: Bench) -> None:
    bench.open(*bench.requests(9))
    tell(bench, REFUSED, NO_TIME, *bench.claim(1))
    recover(bench)
    (lost,) = bench.claim(generation=2)
    bench.leases.replay(2)
    assert [one.rid for one in bench.claim(generation=3)] == [lost.rid]
    assert bench.claim(generation=3) == []


def test_requests_that_were_in_flight_say_nothing_new(bench: Bench) -> None:
    bench.open(*bench.requests(9))
    refused, another, answered, asked = bench.claim(4)
    tell(bench, REFUSED, NO_TIME, refused)
    tell(bench, REFUSED, NO_TIME, another)
    tell(bench, ANSWERED, 5, answered)
    assert (state(bench).failures, state(bench).trial) == (1, True)
    tell(bench, REFUSED, 7000, asked)  # but the instant that one names holds
    assert 6 < rest(bench) <= 7


def test_a_host_that_cannot_be_reached_rests_after_a_few(bench: Bench) -> None:
    bench.open(*bench.requests(9))
    one, two, ok, three, four, five = bench.claim(6)
    tell(bench, UNREACHABLE, 0, one, two)
    tell(bench, ANSWERED, 5, ok)
    tell(bench, UNREACHABLE, 0, three, four)
    assert rest(bench) == 0
    tell(bench, UNREACHABLE, 0, five)
    assert 0.5 < rest(bench) <= 1
    assert state(bench).why == "unreachable"
    trial(bench, UNREACHABLE)
    assert 1 < rest(bench) <= 2


GIVERS: dict[str, Callable[[Bench, Claimed, Signal], Any]] = {
    "retry": lambda b, one, s: b.frontier.retry(1, [one.given_back(5, s)]),
    "defer": lambda b, one, s: b.frontier.defer(1, [one.given_back(5, s)]),
    "release": lambda b, one, s: b.frontier.release(1, [one.given_back(REFUSAL, s)]),
    "complete": lambda b, one, s: b.frontier.complete(
        [Completion(one.rid, one.task, one.host, False, signal=s)]
    ),
}


@pytest.mark.parametrize("verb", GIVERS)
def test_whatever_frees_the_slot_applies_the_signal(bench: Bench, verb: str) -> None:
    bench.open(*bench.requests(3))
    (one,) = bench.claim(1)
    GIVERS[verb](bench, one, Signal(REFUSED, 7000))
    assert 6 < rest(bench) <= 7


@pytest.mark.parametrize("verb", GIVERS)
def test_a_signal_counts_once(bench: Bench, verb: str) -> None:
    bench.open(*bench.requests(3))
    (one,) = bench.claim(1)
    tell(bench, REFUSED, NO_TIME, one)
    GIVERS[verb](bench, one, Signal(REFUSED, 7000))
    assert rest(bench) <= 0.2
    assert state(bench).failures == 1


def test_a_refused_request_goes_first_and_its_refusals_are_counted(bench: Bench) -> None:
    bench.open(*bench.requests(4))
    (one,) = bench.claim(1)
    for n in range(1, 4):
        bench.frontier.release(1, [one.given_back(REFUSAL, Signal(ANSWERED, 5))])
        (one,) = bench.claim(1)
        assert (bench.names([one]), one.refusals, one.attempts) == (["a.example/0"], n, 0)
    bench.frontier.release(1, [one.given_back(REFUSAL, Signal(ANSWERED, 5))])
    assert bench.names(bench.claim_all())[-1] == "a.example/0"  # others may be answered
    bench.complete(one)
    assert not bench.redis.exists(bench.key("REFUSALS"))


# -- the breaker ----------------------------------------------------------------------------------


def pages(bench: Bench, *kinds: int) -> None:
    for kind in kinds:
        (one,) = bench.claim(1)
        tell(bench, kind, 5, one)
        bench.frontier.release(1, [one.given_back()])


def test_a_host_that_blocks_most_pages_is_parked(bench: Bench) -> None:
    bench.open(*bench.requests(3))
    pages(bench, *[BLOCKED, ANSWERED] * 9, BLOCKED)
    assert (state(bench).blocks, state(bench).pages, rest(bench)) == (10, 19, 0)
    pages(bench, BLOCKED)
    assert 3599 < rest(bench) <= 3600
    ((why, _),) = bench.frontier.hosts.held().values()
    assert why == "blocked"
    trial(bench, BLOCKED)
    assert 3599 < rest(bench) <= 3600
    trial(bench, ANSWERED)
    assert (rest(bench), state(bench).pages, bench.frontier.hosts.held()) == (0, 0, {})
    assert len(bench.claim()) == 3


def test_half_is_not_most(bench: Bench) -> None:
    bench.open(*bench.requests(3))
    pages(bench, BLOCKED, ANSWERED, ANSWERED, *[BLOCKED, ANSWERED] * 14, BLOCKED)
    assert rest(bench) == 0
    assert (state(bench).blocks, state(bench).pages) == (16, 32)


def test_old_pages_are_forgotten(bench: Bench) -> None:
    bench.open(*bench.requests(3))
    pages(bench, BLOCKED, *[ANSWERED] * 49)
    assert (state(bench).blocks, state(bench).pages) == (1, 50)
    pages(bench, ANSWERED)
    assert not bench.redis.hexists(bench.key("HOST", HOST), "b")
    assert not bench.redis.exists(bench.key("WATCHED"))


def test_a_parked_host_is_resumed_at_once(bench: Bench) -> None:
    bench.open(*bench.requests(3))
    pages(bench, *[BLOCKED] * 20)
    bench.frontier.hosts.resume(HOST)
    assert (state(bench).why, state(bench).pages) == ("", 0)
    assert len(bench.claim()) == 3


# -- the adaptive rate ----------------------------------------------------------------------------


def adaptive(bench: Bench, *requests: Any, delay: int = 0) -> None:
    bench.frontier.open_task(1, TaskLimits(0, delay, 8, adaptive=True), list(requests))


def test_an_adaptive_host_begins_gently_and_speeds_up(bench: Bench) -> None:
    adaptive(bench, *bench.requests(50))
    (one,) = bench.claim()
    assert bench.claim() == []
    assert state(bench).gap == 1
    for _ in range(6):  # as if time had passed
        tell(bench, ANSWERED, 20, one)
        due = int(1000 * time.time())
        bench.redis.hset(bench.key("HOST", HOST), "n", due)
        bench.redis.zadd(bench.key("HOSTS"), {HOST: due})
        (one,) = bench.claim()
    gap = state(bench).gap
    assert gap is not None
    assert 0.5 < gap < 0.75
    tell(bench, REFUSED, NO_TIME, one)
    slower = state(bench).gap
    assert slower is not None
    assert slower > 1.3 * gap


def test_the_rate_does_not_grow_when_the_gap_is_not_what_limits_it(bench: Bench) -> None:
    adaptive(bench, *bench.requests(50))
    (one,) = bench.claim()
    for _ in range(6):
        tell(bench, ANSWERED, 20, one)
        bench.redis.hset(bench.key("HOST", HOST), "n", 1)  # it was due long ago
        bench.redis.zadd(bench.key("HOSTS"), {HOST: 1})
        (one,) = bench.claim()
    assert state(bench).gap == 1


def test_the_least_delay_is_kept_exactly(bench: Bench) -> None:
    adaptive(bench, *bench.requests(50), delay=100)
    bench.redis.hset(bench.key("HOST", HOST), mapping={"g": 5, "n": 1})
    before = int(1000 * time.time())
    assert len(bench.claim()) == 1
    assert 1000 * state(bench).next_at >= before + 100


def test_small_gaps_are_served_in_batches(bench: Bench) -> None:
    adaptive(bench, *bench.requests(50))
    bench.redis.hset(bench.key("HOST", HOST), mapping={"g": 2.5, "n": 1})
    assert len(bench.claim()) == 4


def test_what_was_learned_outlives_an_idle_host(bench: Bench) -> None:
    adaptive(bench, *bench.requests(1))
    (one,) = bench.claim()
    tell(bench, ANSWERED, 20, one)
    bench.complete(one)
    assert 0 < bench.redis.ttl(bench.key("HOST", HOST)) <= 86401
    bench.frontier.admit(1, [bench.request("new")])
    bench.redis.hset(bench.key("HOST", HOST), "n", 1)
    bench.redis.zadd(bench.key("HOSTS"), {HOST: 1})
    assert len(bench.claim()) == 1
    assert bench.redis.ttl(bench.key("HOST", HOST)) == -1


def test_answers_of_a_host_with_a_fixed_delay_leave_nothing(bench: Bench) -> None:
    bench.open(*bench.requests(3))
    tell(bench, ANSWERED, 20, *bench.claim(1))
    assert bench.redis.hkeys(bench.key("HOST", HOST)) == [b"a"]


def test_what_was_learned_outlives_an_era(bench: Bench) -> None:
    bench.open(*bench.requests(3))
    tell(bench, REFUSED, 7000, *bench.claim(2))
    bench.frontier.eras.wipe()
    assert 6 < rest(bench) <= 7
    assert (state(bench).in_flight, state(bench).queued) == (0, 0)
    assert 0 < bench.redis.ttl(bench.key("HOST", HOST)) <= 86408
    bench.open(*bench.requests(3))
    assert bench.claim() == []
    recover(bench)
    assert len(bench.claim()) == 1


# -- delays ----------------------------------------------------------------------------------------


AHEAD = 50  # ms, as in _shared.lua


def claimed_in_time(bench: Bench) -> list[Claimed]:
    """The requests claimed at the time that the last claim named."""
    while not (some := bench.claim_unsent()) and bench.wait >= 0:
        time.sleep(bench.wait / 1000)
    return some


def next_in(bench: Bench, now: int) -> float:
    """Milliseconds after ``now`` at which the next request may go."""
    return float(bench.redis.hget(bench.key("HOST", HOST), "n")) - now


@pytest.mark.parametrize("adaptive", [False, True])
def test_a_delay_counts_from_when_the_request_was_sent(bench: Bench, adaptive: bool) -> None:
    limits = TaskLimits(delay=2000, adaptive=adaptive)
    bench.frontier.open_task(1, limits, bench.requests(3))
    (one,) = bench.claim_unsent()
    assert one.due is not None
    time.sleep(0.3)  # the worker was late
    now = bench.now()
    bench.report_sent(one, ago=100)
    assert 1900 <= next_in(bench, now) <= 2000
    assert bench.redis.zscore(bench.key("HOSTS"), HOST) == math.ceil(
        now + next_in(bench, now) - AHEAD
    )


def test_a_delay_counts_from_the_completion_if_that_overtakes_the_word_that_it_was_sent(
    bench: Bench,
) -> None:
    bench.frontier.open_task(1, TaskLimits(delay=2000), bench.requests(3))
    (one,) = bench.claim_unsent()
    time.sleep(0.3)  # the worker was late, and so is its master
    now = bench.now()
    bench.complete_all([one])
    assert 2000 <= next_in(bench, now) <= 2100
    bench.report_sent(one, ago=100)
    assert 2000 <= next_in(bench, now) <= 2100


@pytest.mark.parametrize("verb", ["complete", "retry", "release", "claim"])
def test_a_request_that_was_not_sent_spends_no_time_though_its_end_overtakes_that_word(
    bench: Bench, verb: str
) -> None:
    bench.frontier.open_task(1, TaskLimits(delay=HOUR), bench.requests(3))
    (one,) = bench.claim_unsent()
    unsent = Signal(UNSENT)
    if verb == "complete":
        bench.frontier.complete([replace(bench.completion(one), signal=unsent)])
    elif verb == "claim":
        tell(bench, UNSENT, 0, one)
    else:
        getattr(bench.frontier, verb)(1, [one.given_back(0, unsent)])
    bench.report_sent(one, ago=NEVER_SENT)  # too late, so nobody reads it
    assert len(bench.claim_unsent()) == 1
    assert bench.claim_unsent() == []
    assert bench.frontier.audit() == []


def test_a_request_that_was_not_sent_leaves_the_delay_after_the_one_before(bench: Bench) -> None:
    """It was claimed ahead of its time."""
    bench.frontier.open_task(1, TaskLimits(delay=200), bench.requests(3))
    bench.claim()
    due = next_in(bench, 0)
    time.sleep(0.16)
    (ahead,) = bench.claim_unsent()
    bench.report_sent(ahead, ago=NEVER_SENT)
    assert next_in(bench, 0) >= due


@pytest.mark.parametrize("route", ["", "|pool", "|all;pool"])
def test_a_request_that_was_not_sent_spends_no_time_of_an_adaptive_rate(
    bench: Bench, route: str
) -> None:
    bench.frontier.proxies.publish("1", [PooledProxy(1)])
    requests = bench.requests(9, HOST + route)
    bench.frontier.open_task(1, TaskLimits(adaptive=True), requests)
    for _ in range(4):
        (one,) = bench.claim_unsent()
        assert bench.claim_unsent() == []
        tell(bench, UNSENT, 0, one)
        bench.complete(one)
    (sent,) = bench.claim_unsent()
    bench.complete(sent)
    assert bench.claim_unsent() == []
    assert bench.wait > 0
    assert bench.frontier.audit() == []


@pytest.mark.parametrize("adaptive", [False, True])
def test_a_request_is_claimed_ahead_and_says_when_it_may_be_sent(
    early_bench: Bench, adaptive: bool
) -> None:
    bench, began = early_bench, time.monotonic()
    limits = TaskLimits(delay=HOUR, adaptive=adaptive)
    bench.frontier.open_task(1, limits, bench.requests(4))
    for turn in range(4):
        (one,) = bench.claim_unsent()
        assert one.due is not None
        assert one.due >= began + turn * HOUR / 1000
        assert one.due <= time.monotonic() + turn * HOUR / 1000 + 1
        assert bench.claim_unsent() == []  # it was not sent yet
        bench.report_sent(one)


def test_no_two_requests_of_a_host_are_closer_than_its_delay(bench: Bench) -> None:
    bench.frontier.open_task(1, TaskLimits(delay=40), bench.requests(5))
    last = -math.inf
    while some := claimed_in_time(bench):
        (one,) = some
        assert one.due is not None
        time.sleep(max(0.0, one.due - time.monotonic()))  # as its worker does
        assert time.monotonic() - last >= 0.04
        last = time.monotonic()
        bench.report_sent(one)
        bench.complete_all([one])
    assert bench.counts().nr == 0


def test_a_host_that_was_idle_is_claimed_ahead_too(bench: Bench) -> None:
    limits = TaskLimits(delay=5000)
    bench.frontier.open_task(1, limits, bench.requests(1))
    (one,) = bench.claim()
    bench.complete_all([one])
    bench.frontier.open_task(2, limits, bench.requests(1, task=2))
    due = float(bench.redis.hget(bench.key("HOST", HOST), "n"))
    assert bench.redis.zscore(bench.key("HOSTS"), HOST) == math.ceil(due - AHEAD)


def test_a_task_without_a_delay_waits_for_that_of_another_one(early_bench: Bench) -> None:
    bench = early_bench
    bench.frontier.open_task(1, TaskLimits(delay=HOUR), bench.requests(1))
    (one,) = bench.claim_unsent()
    assert one.due is not None
    bench.frontier.open_task(2, TaskLimits(), bench.requests(3, task=2))
    bench.report_sent(one)
    earliest, dues = one.due + HOUR / 1000 - 1, [other.due for other in bench.claim_unsent()]
    assert len(dues) == 3
    assert all(due is not None and due >= earliest for due in dues)


def test_a_delay_that_is_over_needs_no_report(bench: Bench) -> None:
    bench.frontier.open_task(1, TaskLimits(delay=1), bench.requests(1))
    (one,) = bench.claim()
    time.sleep(0.003)
    bench.complete_all([one])
    bench.frontier.open_task(2, TaskLimits(), bench.requests(1, task=2))
    assert [other.due for other in bench.claim_unsent()] == [None]
    assert not bench.redis.hexists(bench.key("HOST", HOST), "d")


def pass_delay(bench: Bench) -> None:
    """As if an hour and a bit had passed for the host."""
    bench.redis.hincrbyfloat(bench.key("HOST", HOST), "n", -HOUR - 100)
    if bench.redis.zscore(bench.key("HOSTS"), HOST):
        bench.redis.zincrby(bench.key("HOSTS"), -HOUR - 100, HOST)


SLOW = TaskLimits(delay=HOUR, concurrency=5)


def test_nothing_is_claimed_until_it_was_sent(bench: Bench) -> None:
    bench.frontier.open_task(1, SLOW, bench.requests(3))
    (one,) = bench.claim_unsent()
    pass_delay(bench)
    assert bench.claim() == []
    assert bench.frontier.audit() == []
    bench.report_sent(one)
    assert bench.claim() == []
    pass_delay(bench)
    assert len(bench.claim()) == 1


def test_the_end_of_another_fetch_says_nothing_of_an_unsent_one(bench: Bench) -> None:
    bench.frontier.open_task(1, SLOW, bench.requests(5))
    (one,) = bench.claim()
    pass_delay(bench)
    (unsent,) = bench.claim_unsent()
    bench.complete_all([one])
    pass_delay(bench)
    assert bench.claim() == []
    bench.report_sent(unsent)
    pass_delay(bench)
    assert len(bench.claim()) == 1


def test_a_new_request_waits_for_it_too(bench: Bench) -> None:
    bench.frontier.open_task(1, SLOW, bench.requests(1))
    (unsent,) = bench.claim_unsent()
    bench.frontier.open_task(2, SLOW, bench.requests(1, task=2))
    pass_delay(bench)
    assert bench.claim() == []
    bench.frontier.release(1, [unsent.given_back()])  # sent or not: unknown
    assert bench.claim() == []
    pass_delay(bench)
    assert len(bench.claim()) == 1


def test_a_report_that_is_repeated_is_not_about_the_next_one(bench: Bench) -> None:
    bench.frontier.open_task(1, SLOW, bench.requests(5))
    (one,) = bench.claim_unsent()
    pass_delay(bench)
    bench.sequences[1] += 1
    sent = FreedSlot(one.rid, one.host, one.claim, Signal(SENT, HOUR + 50))
    again = bench.frontier.claim(1, bench.sequences[1], 5, [sent])  # its script is sent twice
    assert len(again.requests) == 1
    pass_delay(bench)
    assert bench.claim() == []


def test_one_that_is_never_sent_holds_up_nothing(bench: Bench) -> None:
    bench.frontier.open_task(1, SLOW, bench.requests(3))
    (one,) = bench.claim_unsent()
    pass_delay(bench)
    bench.frontier.release(1, [one.given_back()])
    pass_delay(bench)
    (same,) = bench.claim_unsent()
    bench.leases.replay(1)
    pass_delay(bench)
    assert [again.rid for again in bench.claim(generation=2)] == [one.rid] == [same.rid]


def test_a_report_of_another_claim_is_ignored(bench: Bench) -> None:
    bench.frontier.open_task(1, TaskLimits(delay=60_000), bench.requests(3))
    (one,) = bench.claim_unsent()
    before = bench.redis.hgetall(bench.key("HOST", HOST))
    bench.report_sent(one._replace(claim=one.claim + 7))
    bench.report_sent(one, generation=2)
    assert bench.redis.hgetall(bench.key("HOST", HOST)) == before


def test_a_host_without_a_delay_reports_nothing(bench: Bench) -> None:
    bench.open(*bench.requests(3))
    assert not any(one.due is not None for one in bench.claim())


def test_a_delay_is_not_shortened(bench: Bench) -> None:
    bench.frontier.open_task(1, TaskLimits(delay=2000), bench.requests(3))
    (one,) = bench.claim_unsent()
    before = float(bench.redis.hget(bench.key("HOST", HOST), "n"))
    time.sleep(0.1)
    bench.report_sent(one, ago=10_000)  # longer than it was held
    tell(bench, ANSWERED, 10_000, one)
    assert float(bench.redis.hget(bench.key("HOST", HOST), "n")) == before


def test_the_delay_of_robots_txt_counts_from_then_too(bench: Bench) -> None:
    bench.frontier.open_task(1, TaskLimits(adaptive=True, robots=True), bench.requests(3))
    bench.frontier.hosts.robots(HOST, time.time() + 1000, delay=3.0)
    (one,) = bench.claim_unsent()
    time.sleep(0.3)
    now = bench.now()
    bench.report_sent(one, ago=10)
    assert 2980 <= next_in(bench, now) <= 3000
