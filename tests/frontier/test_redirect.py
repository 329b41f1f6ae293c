"""redirect: a held request continues at another host, unchanged."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from redis import Redis

from crawlframe.errors import Fenced
from crawlframe.frontier import Claimed, Frontier
from crawlframe.frontier.client.partitions import PartitionedStore
from crawlframe.request.record import Hop, hops_of, with_hops
from crawlframe.request.request import Request
from tests.frontier.bench import Bench

A, B = "a.example", "b.example"


def claim_one(bench: Bench, generation: int = 1) -> Claimed:
    [one] = bench.claim(1, generation)
    return one


def slots(bench: Bench, host: str) -> int:
    return int(bench.redis.hget(bench.key("HOST", host), "a") or 0)


def next_time(bench: Bench, host: str) -> float:
    return float(bench.redis.hget(bench.key("HOST", host), "n") or 0)


def test_it_goes_to_the_host_of_its_target(bench: Bench) -> None:
    bench.open(bench.request("one", depth=3))
    one = claim_one(bench)
    assert bench.redirect(one, B) == 1
    assert bench.places() == (1, 0, 0, 0)
    assert (slots(bench, A), slots(bench, B)) == (0, 0)
    again = claim_one(bench)
    assert (again.rid, again.task, again.host) == (one.rid, 1, B)
    assert again.record == one.record + b" b.example"
    assert (slots(bench, A), slots(bench, B)) == (0, 1)
    assert bench.complete(again) == {1}


def test_it_keeps_its_rank_and_is_the_first_of_its_lane(bench: Bench) -> None:
    bench.open(
        bench.request("one", depth=1),
        bench.request("waits", B, depth=1),
        bench.request("earlier", B),
    )
    held = {bench.name_of[one.rid]: one for one in bench.claim()}
    bench.release(held["waits"], held["earlier"])
    bench.redirect(held["one"], B)
    assert bench.names(bench.claim()) == ["earlier", "one", "waits"]


def test_several_keep_their_order(bench: Bench) -> None:
    bench.open(*bench.requests(3))
    held = bench.claim()
    moved = [one.given_back((B, one.record + b"+")) for one in held]
    assert bench.frontier.redirect(1, moved) == 3
    assert bench.names(bench.claim()) == bench.names(held)


def test_it_keeps_its_tries_and_kills(bench: Bench) -> None:
    bench.open(bench.request("one"))
    bench.release(claim_one(bench), deliveries=1)
    bench.retry(claim_one(bench))
    [one] = bench.claim_all()
    assert (one.attempts, one.deliveries, one.kills) == (1, 1, 1)
    bench.redirect(one, B)
    again = claim_one(bench)
    assert (again.attempts, again.deliveries, again.kills) == (1, 1, 1)


def test_both_hosts_have_their_delay(bench: Bench) -> None:
    """The hop waits for its target's delay, also when the host stays the same."""
    bench.open(bench.request("one"), bench.request("other", B), delay=60_000)
    held = {one.host: one for one in bench.claim()}
    bench.redirect(held[A], B)
    assert bench.claim() == []
    assert 0 < bench.wait <= 60_000
    bench.redis.hset(bench.key("HOST", B), "n", bench.now() - 1)
    bench.redis.zadd(bench.key("HOSTS"), {B: bench.now() - 1})
    hop = claim_one(bench)
    assert hop.rid == held[A].rid
    assert next_time(bench, B) > bench.now() + 50_000
    bench.redirect(hop, B)
    assert bench.claim() == []
    assert 0 < bench.wait <= 60_000


def test_the_slot_is_given_back_once(bench: Bench) -> None:
    """Whether or not the end of the fetch was reported before."""
    bench.open(*bench.requests(2), concurrency=2)
    one, two = bench.claim()
    bench.claim(0, fetched=[one])
    assert slots(bench, A) == 1
    bench.redirect(one, B)
    assert slots(bench, A) == 1
    bench.redirect(two, A)
    assert slots(bench, A) == 0


def test_a_full_host_is_free_again(bench: Bench) -> None:
    bench.open(*bench.requests(2), concurrency=1)
    one = claim_one(bench)
    assert bench.claim() == []
    bench.redirect(one, B)
    assert sorted(request.host for request in bench.claim()) == [A, B]


def test_only_the_holder_may_move_it(bench: Bench) -> None:
    bench.open(*bench.requests(2))
    [mine], [other] = bench.claim(1, generation=1), bench.claim(1, generation=2)
    before = bench.dump()
    assert bench.redirect(other, B) == 0
    assert bench.redirect(mine, B, generation=2) == 0
    assert bench.redirect(mine, B, generation=12) == 0
    assert bench.dump() == before
    bench.leases.replay(1)
    before = bench.dump()
    assert bench.redirect(mine, B) == 0
    assert bench.dump() == before
    with pytest.raises(Fenced):
        bench.claim(generation=1)


def test_a_late_repetition_does_not_move_it_again(bench: Bench) -> None:
    """Not even when the same generation holds it again, at this hop or a later one."""
    bench.open(bench.request("one"))
    one = claim_one(bench)
    bench.redirect(one, B)
    two = claim_one(bench)
    before = bench.dump()
    assert bench.redirect(one, B) == 0
    assert bench.dump() == before
    bench.redirect(two, A)
    three = claim_one(bench)
    before = bench.dump()
    assert bench.redirect(one, B) == 0
    assert bench.redirect(two, A) == 0
    assert bench.dump() == before
    assert bench.complete(three) == {1}


def test_a_record_may_become_shorter(bench: Bench) -> None:
    """As when a request comes back from an errand."""
    bench.open(bench.request("one"))
    one = claim_one(bench)
    bench.redirect(one, B)
    home = claim_one(bench).given_back((one.host, one.record))
    assert bench.frontier.redirect(1, [home]) == 1
    again = claim_one(bench)
    assert (again.host, again.record) == (one.host, one.record)
    before = bench.dump()
    assert bench.frontier.redirect(1, [home]) == 0
    assert bench.dump() == before


def test_one_of_a_task_that_is_gone_is_let_go(redis_client: Redis) -> None:
    """After damage, which must not stop the others: a new era rebuilds it."""
    bench = Bench(redis_client, store=PartitionedStore)
    bench.open(bench.request("lost"))
    bench.open(bench.request("kept", task=2), task=2)
    held = {bench.name_of[one.rid]: one for one in bench.claim()}
    bench.redis.delete(bench.key("TASK", 1))
    moved = [one.given_back((B, one.record + b"+")) for one in held.values()]
    assert bench.frontier.redirect(1, moved) == 2
    assert bench.redis.hkeys(bench.key("OWN")) == []
    assert not bench.redis.exists(bench.key("INPROGRESS", 1))
    assert bench.store.era_of(0) == (0, "doubted")
    assert bench.redis.lrange(bench.key("LANE", f"2:{bench.request('x').rank}:{B}"), 0, -1) == [
        held["kept"].rid
    ]


def test_in_a_paused_task_it_waits(bench: Bench) -> None:
    bench.open(bench.request("one"))
    one = claim_one(bench)
    bench.frontier.pause(1)
    bench.redirect(one, B)
    assert bench.claim() == []
    bench.frontier.resume(1)
    assert claim_one(bench).host == B


def test_in_a_cancelled_task_it_ends(bench: Bench) -> None:
    bench.open(*bench.requests(2))
    one, _ = bench.claim()
    bench.begin_cancel(1)
    bench.redirect(one, B)
    assert bench.places() == (1, 1, 0, 0)
    bench.frontier.cancel(1)
    counts = bench.counts()
    assert (counts.nr, counts.cancelled) == (1, 1)
    assert bench.redis.exists(bench.key("LANES", B)) == 0


@pytest.mark.parametrize("verb", ["retry", "release", "park", "replay"])
def test_it_comes_back_to_its_new_host(bench: Bench, verb: str) -> None:
    bench.open(bench.request("one"))
    bench.redirect(claim_one(bench), B)
    hop = claim_one(bench)
    if verb == "replay":
        bench.leases.replay(1)
    else:
        getattr(bench, verb)(hop)
    bench.frontier.unpark(1)
    [again] = bench.claim_all(generation=2)
    assert (again.rid, again.host, again.record) == (hop.rid, B, hop.record)


def test_more_than_fit_one_call(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(store=PartitionedStore)
    bench.open()
    bench.frontier.admit(1, bench.requests(1100))
    moved = [one.given_back((B, one.record + b"+")) for one in bench.claim_all()]
    assert bench.frontier.redirect(1, moved) == 1100
    assert bench.places() == (1100, 0, 0, 0)


def test_it_stays_in_its_partition(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(partitions=2)
    frontier: Frontier = bench.frontier
    near, far = (
        next(
            host
            for host in (f"{n}.example" for n in range(100))
            if (bench.store.partition_of(host) == bench.store.partition_of(A)) is same
        )
        for same in (True, False)
    )
    assert frontier.may_move(A, near)
    assert not frontier.may_move(A, far)
    bench.open(bench.request("one"))
    one = claim_one(bench)
    bench.redirect(one, near)
    [hop] = bench.claim_all()
    assert hop.host == near
    assert bench.frontier.pending([bench.request("one")]) == [bench.request("one")]
    bench.whole_claim(0, fetched=[hop])
    assert bench.complete(hop) == {1}


# -- records --------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [B, A, "a.exam", "a.example:81", "xn--bcher-kva.example"])
@pytest.mark.parametrize(
    "request_",
    [
        Request("https://a.example/path?q=1"),
        Request("http://a.example/", method="POST", body=b"x", timeout=3),
        Request("https://a.example/b.example", headers={"Referer": "https://b.example/"}),
        Request(f"https://a.example/{'long' * 100}", meta={"at": (1, {2})}),
    ],
)
def test_a_record_in_the_lane_of_another_host(bench: Bench, request_: Request, target: str) -> None:
    """Redis leaves out of a record the part in the name of its lane: the target's."""
    bench.open(bench.request("one", record=request_.encode()))
    one = claim_one(bench)
    for hops in (
        [Hop(301, f"https://{target}/x")],
        [Hop(301, f"https://{target}/x"), Hop(302, "http://c.example/")],
    ):
        record = with_hops(one.record, hops)
        assert bench.frontier.redirect(1, [one.given_back((target, record))]) == 1
        one = claim_one(bench)
        assert (one.host, one.record) == (target, record)
        assert hops_of(one.record) == hops
        assert Request.decode(one.record) == request_
