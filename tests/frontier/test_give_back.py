"""retry, release, park, unpark: the rights of a holder alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from crawlframe.frontier import Frontier
from crawlframe.frontier.client.partitions import PartitionedStore
from tests.frontier.bench import Bench


def give(bench: Bench, verb: str, request: object, generation: int) -> int:
    return getattr(bench, verb)(request, generation=generation)


@pytest.mark.parametrize("verb", ["retry", "release", "park"])
def test_only_the_holder_may_give_back(bench: Bench, verb: str) -> None:
    bench.open(*bench.requests(2))
    mine, other = bench.claim(1, generation=1), bench.claim(1, generation=2)
    before = bench.dump()
    assert give(bench, verb, other[0], 1) == 0
    assert give(bench, verb, mine[0], 2) == 0
    assert give(bench, verb, mine[0], 12) == 0
    assert give(bench, verb, mine[0]._replace(rid=bench.request("stranger").rid), 1) == 0
    assert bench.dump() == before
    assert give(bench, verb, mine[0], 1) == 1


@pytest.mark.parametrize("verb", ["retry", "release", "park"])
def test_a_fenced_generation_gives_nothing_back(bench: Bench, verb: str) -> None:
    bench.open(bench.request("one"))
    [one] = bench.claim(generation=1)
    bench.leases.replay(1)
    before = bench.dump()
    assert give(bench, verb, one, 1) == 0
    assert bench.dump() == before
    [again] = bench.claim(generation=2)
    before = bench.dump()
    assert give(bench, verb, one, 1) == 0
    assert bench.dump() == before
    assert bench.complete(again) == {1}


@pytest.mark.parametrize("verb", ["retry", "release", "park"])
def test_only_once(bench: Bench, verb: str) -> None:
    bench.open(bench.request("one"))
    [one] = bench.claim()
    assert give(bench, verb, one, 1) == 1
    before = bench.dump()
    assert give(bench, verb, one, 1) == 0
    assert bench.dump() == before


@pytest.mark.parametrize("fetched", [False, True])
@pytest.mark.parametrize("verb", ["retry", "release", "park"])
def test_not_what_a_later_claim_holds(bench: Bench, verb: str, fetched: bool) -> None:
    """A call whose answer was lost is sent again when its node has claimed the request anew."""
    bench.open(bench.request("one"))
    [one] = bench.claim()
    assert give(bench, verb, one, 1) == 1
    bench.frontier.unpark(1)
    [later] = bench.claim_all()
    if fetched:
        bench.claim(0, fetched=[later])
    before = bench.dump()
    assert give(bench, verb, one, 1) == 0
    assert bench.dump() == before
    assert give(bench, verb, later, 1) == 1


@pytest.mark.parametrize("verb", ["retry", "release", "park"])
def test_more_than_fit_one_call(make_bench: Callable[..., Bench], verb: str) -> None:
    bench = make_bench(store=PartitionedStore)
    bench.open()
    bench.frontier.admit(1, bench.requests(1100))
    held = bench.claim_all()
    value = "reason" if verb == "park" else 0
    given = [request.given_back(value) for request in held]
    assert getattr(bench.frontier, verb)(1, given) == 1100
    assert bench.places()[1] == 0


# -- retry ----------------------------------------------------------------------------------------


def test_a_retry_waits_for_its_time(bench: Bench) -> None:
    bench.open(bench.request("one"))
    [one] = bench.claim()
    assert bench.retry(one, 60_000) == 1
    assert bench.places() == (0, 0, 1, 0)
    assert bench.claim() == []
    assert 0 < bench.wait <= 60_000


def test_a_retry_comes_back_with_one_more_attempt(bench: Bench) -> None:
    bench.open(bench.request("one"))
    [one] = bench.claim()
    for attempts in (1, 2, 3):
        due = bench.now() + 5
        bench.retry(one, 5)
        while not (found := bench.claim()):
            pass
        assert bench.now() >= due
        [one] = found
        assert (one.attempts, one.deliveries) == (attempts, 0)
        assert one.record == b"one"


def test_a_retry_of_a_cancelled_task_does_not_wait(bench: Bench) -> None:
    bench.open(bench.request("one"))
    [one] = bench.claim()
    bench.frontier.cancel(1)
    bench.retry(one, 60_000)
    assert bench.names(bench.claim_all()) == ["one"]


@pytest.mark.parametrize("delay", [0, 60_000])
def test_follow_ups_of_a_cancelled_task_end_as_they_come(bench: Bench, delay: int) -> None:
    bench.open(bench.request("one"))
    [one] = bench.claim()
    bench.frontier.cancel(1)
    assert bench.complete(one, bench.request("two", delay=delay), bench.request("one")) == {1}
    counts = bench.counts()
    assert (counts.na, counts.nf, counts.ne, counts.cancelled) == (2, 1, 1, 1)
    assert counts.duplicates == 1
    assert bench.claim_all() == []


# -- release --------------------------------------------------------------------------------------


def test_released_requests_are_first_in_line_in_their_old_order(bench: Bench) -> None:
    bench.open(*bench.requests(5))
    held = bench.claim(3)
    assert bench.release(*held) == 3
    assert bench.names(bench.claim()) == [f"a.example/{i}" for i in range(5)]


def test_a_release_may_count_a_delivery(bench: Bench) -> None:
    bench.open(bench.request("one"))
    [one] = bench.claim()
    bench.release(one)
    [one] = bench.claim()
    assert (one.attempts, one.deliveries) == (0, 0)
    bench.release(one, deliveries=1)
    [one] = bench.claim()
    bench.retry(one)
    [one] = bench.claim_all()
    assert (one.attempts, one.deliveries) == (1, 1)
    bench.release(one, deliveries=1)
    [one] = bench.claim()
    assert (one.attempts, one.deliveries) == (1, 2)


# -- park, unpark ---------------------------------------------------------------------------------


def test_a_parked_request_steps_aside_with_its_reason(bench: Bench) -> None:
    bench.open(bench.request("one"), bench.request("two"))
    one, _ = bench.claim()
    bench.park(one, reason="Spider 'böse' has no callback")
    assert bench.places() == (0, 1, 0, 1)
    assert bench.frontier.parked(1) == {one.rid: "Spider 'böse' has no callback"}
    assert bench.claim() == []
    assert bench.wait == -1
    assert bench.frontier.unpark(1) == 1
    assert bench.frontier.parked(1) == {}
    assert bench.names(bench.claim()) == ["one"]


def test_nothing_to_unpark(bench: Bench) -> None:
    bench.open(bench.request("one"))
    before = bench.dump()
    assert bench.frontier.unpark(1) == 0
    assert bench.frontier.unpark(2) == 0
    assert bench.dump() == before


def test_unparking_leaves_other_tasks_alone(bench: Bench) -> None:
    for task in (1, 2):
        bench.open(bench.request("one", task=task), task=task)
    for request in bench.claim():
        bench.park(request)
    assert bench.frontier.unpark(1) == 1
    assert [bench.counts(task).parked for task in (1, 2)] == [0, 1]


def test_a_great_many_come_back_from_parking(make_bench: Callable[..., Bench]) -> None:
    """More than one scan of the hash returns: it must not stop where the first ones were."""
    bench = make_bench(store=PartitionedStore)
    n = 3_000
    bench.open()
    bench.frontier.admit(1, bench.requests(n))
    while held := bench.claim():
        bench.frontier.park(1, [request.given_back("no") for request in held])
    assert bench.counts().parked == n
    assert bench.frontier.unpark(1) == n
    assert bench.places() == (n, 0, 0, 0)


def test_unpark_does_not_chase_a_node_that_parks_again(make_bench: Callable[..., Bench]) -> None:
    class Parking(PartitionedStore):
        """Another node claims and parks unparked requests, as quickly as it can."""

        def run(self, verb: str, partition: int, *args: object) -> object:
            answer = super().run(verb, partition, *args)
            if verb == "unpark":
                bench.sequences[2] += 1
                held = (
                    Frontier(PartitionedStore(self.redis))
                    .claim(2, bench.sequences[2], 500)
                    .requests
                )
                Frontier(PartitionedStore(self.redis)).park(
                    2, [r.given_back("still") for r in held]
                )
            return answer

    bench = make_bench(store=Parking)
    bench.open(*bench.requests(3))
    for request in bench.claim():
        bench.park(request)
    assert bench.frontier.unpark(1) == 3
    assert set(bench.frontier.parked(1).values()) == {"still"}


def test_a_cancelled_task_parks_nothing(bench: Bench) -> None:
    """Its request was claimed before the cancel, which unparks once."""
    bench.open(bench.request("one"))
    [one] = bench.claim()
    bench.frontier.cancel(1)
    assert bench.park(one) == 1
    assert bench.places() == (1, 0, 0, 0)
    assert bench.names(bench.claim()) == ["one"]


@pytest.mark.parametrize("end", ["complete", "cancel"])
def test_kills_are_forgotten_at_the_end(bench: Bench, end: str) -> None:
    bench.open(*bench.requests(2))
    bench.release(bench.claim(1)[0], deliveries=1)
    if end == "cancel":
        bench.frontier.cancel(1)
    else:
        bench.complete_all(bench.claim(2))
    assert not bench.redis.exists(bench.key("KILLS"))
    assert bench.frontier.audit() == []


def test_kills_that_cannot_be_read_are_counted_anew(bench: Bench) -> None:
    bench.open(bench.request("one"))
    [one] = bench.claim()
    bench.release(one, deliveries=1)
    bench.redis.hset(bench.key("KILLS"), one.rid, "junk")
    [one] = bench.claim()
    assert (one.deliveries, one.kills) == (1, 0)
    bench.redis.hset(bench.key("KILLS"), one.rid, "junk")
    bench.release(one, deliveries=1)
    assert bench.claim()[0].kills == 1


def test_who_is_not_blamed_has_killed_nobody(bench: Bench) -> None:
    bench.open(bench.request("one"))
    [one] = bench.claim()
    bench.release(one)
    [one] = bench.claim()
    assert (one.deliveries, one.kills) == (0, 0)
