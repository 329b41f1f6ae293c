"""When a master claims and reports, with a real frontier and children that are not forked."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import closing

import pytest
from redis import Redis

from crawlframe.frontier import Claimed, Frontier
from crawlframe.frontier.client.partitions import PartitionedStore
from crawlframe.frontier.client.records import ANSWERED, Signal
from crawlframe.identity.identity import default_user_agent
from crawlframe.node.child_process import Child
from crawlframe.node.master.claims import AWAY_PAUSE, IDLE_PAUSE, RETAKE_EVERY, Claims
from crawlframe.node.master.deferred_calls import DeferredCalls
from crawlframe.node.messages import child_line
from tests.frontier.bench import Bench

GENERATION = 1
NOW = 1000.0  # seconds


@pytest.fixture
def bench(redis_client: Redis) -> Bench:
    return Bench(redis_client, store=PartitionedStore)


@pytest.fixture
def deferred_calls() -> DeferredCalls:
    return DeferredCalls(lambda: None)


@pytest.fixture
def claims(deferred_calls: DeferredCalls) -> Claims:
    return Claims(deferred_calls)


@pytest.fixture
def child() -> Iterator[Child]:
    ours, theirs = child_line()
    with closing(ours), closing(theirs):
        yield Child("worker", 1, ours)


def claim(claims: Claims, bench: Bench, child: Child, n: int) -> list[Claimed]:
    made = claims.make(bench.frontier, GENERATION, n, NOW)
    assert made is not None
    for request in made.requests:
        child.hold(request)
    return made.requests


SIGNAL = Signal(ANSWERED, 50)


def over(*requests: Claimed) -> list[tuple[bytes, int, Signal]]:
    """The finished fetches in the form of a worker's report."""
    return [(request.rid, request.claim, SIGNAL) for request in requests]


class Away(Frontier):
    """A frontier whose next claim is executed, and the answer is lost."""

    def claim(self, *args: object) -> object:  # type: ignore[override]
        super().claim(*args)  # type: ignore[arg-type]
        raise ConnectionError


class Parked(Frontier):
    """Has parked requests that this code has not tried, as many as the test says."""

    left = 0
    looks = 0

    def retake(self, version: str, n: int) -> int:
        self.looks += 1
        return self.left


def test_parked_requests_are_looked_for_once_in_a_while(claims: Claims, bench: Bench) -> None:
    parked = Parked(PartitionedStore(bench.redis))
    for seconds in (0.0, RETAKE_EVERY / 2, RETAKE_EVERY, 1.5 * RETAKE_EVERY):
        claims.retake(parked, "v1", 8, NOW + seconds)
    assert parked.looks == 2
    claims.hurry()
    claims.retake(parked, "v1", 8, NOW + 1.5 * RETAKE_EVERY)
    assert parked.looks == 2
    claims.hurry(retake=True)  # there is a new worker
    claims.retake(parked, "v1", 8, NOW + 1.5 * RETAKE_EVERY)
    assert parked.looks == 3


def test_while_some_are_found_they_are_claimed_without_a_pause(
    claims: Claims, bench: Bench, child: Child
) -> None:
    bench.open()
    assert claim(claims, bench, child, 8) == []
    assert NOW < claims.due(taking=True) <= NOW + IDLE_PAUSE
    parked = Parked(PartitionedStore(bench.redis))
    parked.left = 3
    claims.retake(parked, "v1", 8, NOW)
    assert claims.due(taking=True) <= NOW
    claims.retake(parked, "v1", 8, NOW)
    assert parked.looks == 2


def test_nothing_is_asked_of_a_redis_that_is_away(
    claims: Claims, deferred_calls: DeferredCalls, bench: Bench
) -> None:
    assert claims.make(Away(PartitionedStore(bench.redis)), GENERATION, 1, NOW) is None
    assert deferred_calls.away
    assert claims.due(taking=True) == NOW + AWAY_PAUSE
    parked = Parked(PartitionedStore(bench.redis))
    claims.retake(parked, "v1", 8, NOW + 60)
    assert parked.looks == 0


def test_a_call_whose_answer_was_lost_is_repeated_before_a_claim(
    claims: Claims, deferred_calls: DeferredCalls, bench: Bench, child: Child
) -> None:
    bench.open(bench.request("1"))
    (held,) = claim(claims, bench, child, 1)
    answers = iter([ConnectionError("lost"), None])

    def release() -> None:
        bench.frontier.release(GENERATION, [held.given_back()])
        if error := next(answers):
            raise error

    deferred_calls.enqueue(release)
    assert deferred_calls.pending
    assert [one.rid for one in claim(claims, bench, child, 1)] == [held.rid]
    deferred_calls.flush()
    assert bench.frontier.leases.hosts(GENERATION).keys() == {held.rid}


def test_fetches_that_are_over_go_with_the_next_claim(
    claims: Claims, bench: Bench, child: Child
) -> None:
    bench.open(*bench.requests(5), concurrency=2)
    held = claim(claims, bench, child, 8)
    assert len(held) == 2
    claims.end_fetches(child, over(*held), NOW)
    assert len(claim(claims, bench, child, 8)) == 2
    assert claim(claims, bench, child, 8) == []
    assert bench.places() == (1, 4, 0, 0)


def test_they_are_reported_when_no_worker_has_a_free_slot(
    claims: Claims, bench: Bench, child: Child
) -> None:
    bench.open(*bench.requests(2), concurrency=1)
    held = claim(claims, bench, child, 1)
    assert claims.due(taking=False) == math.inf
    claims.end_fetches(child, over(*held), NOW)
    assert claims.due(taking=False) < NOW + 1
    assert claim(claims, bench, child, 0) == []
    assert claims.due(taking=False) == math.inf
    assert len(bench.claim(generation=2)) == 1


def test_the_delay_of_a_host_counts_from_when_a_worker_sent_the_request(
    claims: Claims, bench: Bench, child: Child
) -> None:
    bench.open(*bench.requests(2), delay=2000)
    (held,) = claim(claims, bench, child, 8)
    time.sleep(0.3)
    claims.note_sent(child, [(held.rid, held.claim, NOW + 2.4)], NOW + 2)
    assert NOW + 2 < claims.due(taking=False) < NOW + 3
    now = bench.now()
    assert claims.make(bench.frontier, GENERATION, 0, NOW + 2.5) is not None
    next_time = float(bench.redis.hget(bench.key("HOST", "a.example"), "n"))
    assert 1900 <= next_time - now < 2000  # it was sent 100 ms before the claim
    assert claims.due(taking=False) == math.inf


def test_a_request_that_another_worker_has_is_not_reported_as_sent(
    claims: Claims, bench: Bench, child: Child
) -> None:
    bench.open(*bench.requests(2), delay=2000)
    (held,) = claim(claims, bench, child, 8)
    claims.note_sent(child, [(held.rid, 7, NOW), (b"unknown", 1, NOW)], NOW)
    assert claims.due(taking=False) == math.inf


def test_requests_that_the_worker_no_longer_holds_are_not_reported(
    claims: Claims, bench: Bench, child: Child
) -> None:
    bench.open(*bench.requests(3), concurrency=3)
    settled, again, held = claim(claims, bench, child, 3)
    child.settle(settled.rid)
    child.hold(again._replace(claim=7))
    claims.end_fetches(child, [*over(settled, again), (b"unknown", 1, SIGNAL)], NOW)
    assert claims.due(taking=False) == math.inf
    claims.end_fetches(child, over(held), NOW)
    assert claims.due(taking=False) < math.inf


def test_many_are_reported_in_parts(claims: Claims, bench: Bench, child: Child) -> None:
    bench.open()
    bench.frontier.admit(1, bench.requests(600))
    held = claim(claims, bench, child, 500) + claim(claims, bench, child, 500)
    assert len(held) == 600
    claims.end_fetches(child, over(*held), NOW)
    for left in ("100", None):
        assert claims.due(taking=False) <= NOW + 1
        claim(claims, bench, child, 0)
        told = bench.redis.hget(bench.key("HOST", "a.example"), "a")
        assert told == (left.encode() if left else None)
    assert claims.due(taking=False) == math.inf


def test_after_a_lost_answer_somebody_must_be_there_to_take_what_it_gave(
    claims: Claims, bench: Bench, child: Child
) -> None:
    bench.open(*bench.requests(4), concurrency=1)
    held = claim(claims, bench, child, 1)
    claims.end_fetches(child, over(*held), NOW)
    assert claims.make(Away(PartitionedStore(bench.redis)), GENERATION, 1, NOW) is None
    assert claims.due(taking=False) == math.inf
    assert NOW < claims.due(taking=True) < math.inf
    found = claim(claims, bench, child, 1)
    assert bench.redis.smembers(bench.key("INPROGRESS", GENERATION)) == {
        request.rid for request in held + found
    }
    assert bench.redis.hget(bench.key("HOST", "a.example"), "a") == b"1"
    claims.end_fetches(child, over(*found), NOW)
    assert claims.due(taking=False) < math.inf


def test_a_new_generation_tells_nothing_of_the_old_one(
    claims: Claims, bench: Bench, child: Child
) -> None:
    """The numbers of its claims start again, and may equal earlier ones."""
    bench.open(*bench.requests(2), concurrency=1)
    held = claim(claims, bench, child, 1)
    claims.end_fetches(child, over(*held), NOW)
    bench.leases.replay(GENERATION)
    claims.start_over()
    assert claims.due(taking=False) == math.inf
    assert claims.make(bench.frontier, GENERATION, 1, NOW) is None  # it is fenced
    made = claims.make(bench.frontier, GENERATION + 1, 1, NOW)
    assert made is not None
    assert [(one.rid, one.claim) for one in made.requests] == [(one.rid, one.claim) for one in held]


@pytest.mark.parametrize("partitions", [1, 3])
def test_what_no_worker_has_at_two_looks_is_a_stray(
    redis_client: Redis, claims: Claims, child: Child, partitions: int
) -> None:
    bench = Bench(redis_client, partitions, store=PartitionedStore)
    bench.open(*bench.requests(3), *bench.requests(3, host="b.example"))
    known, *_ = claim(claims, bench, child, 6)
    held = {known.rid}
    assert claims.strays(bench.frontier, GENERATION, held) == []
    strays = claims.strays(bench.frontier, GENERATION, held)
    assert len(strays) == 5
    assert bench.frontier.release(GENERATION, strays) == 5
    assert bench.places() == (5, 1, 0, 0)


def test_what_comes_and_goes_between_two_looks_is_no_stray(
    claims: Claims, bench: Bench, child: Child
) -> None:
    bench.open(*bench.requests(2))
    (first,) = claim(claims, bench, child, 1)
    assert claims.strays(bench.frontier, GENERATION, ()) == []
    bench.complete(first)
    claim(claims, bench, child, 1)
    assert claims.strays(bench.frontier, GENERATION, ()) == []


def test_nothing_is_a_stray_while_an_answer_or_an_errand_is_on_its_way(
    claims: Claims, bench: Bench, child: Child
) -> None:
    bench.open(*bench.requests(2))
    assert claims.make(Away(PartitionedStore(bench.redis)), GENERATION, 1, NOW) is None
    for _ in range(2):
        assert claims.strays(bench.frontier, GENERATION, ()) == []
    claim(claims, bench, child, 1)
    assert claims.strays(bench.frontier, GENERATION, child.held.keys()) == []


def test_the_first_public_host_without_a_contact_is_warned_of(
    deferred_calls: DeferredCalls, bench: Bench, child: Child, caplog: pytest.LogCaptureFixture
) -> None:
    claims = Claims(deferred_calls, default_user_agent(""))
    hosts = ("127.0.0.1:80", "www.shop.org", "www.other.org")
    for task, (host, expected) in enumerate(zip(hosts, (0, 1, 1), strict=True), start=1):
        bench.open(bench.request(host, host, task=task), task=task)
        assert [one.host for one in claim(claims, bench, child, 1)] == [host]
        assert caplog.text.count("CRAWLFRAME_CONTACT") == expected
