"""replay, leases: the requests of a dead generation go back, and it is fenced for ever."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from crawlframe.errors import Fenced
from crawlframe.frontier import NodeInfo
from crawlframe.frontier.client.partitions import PartitionedStore
from tests.frontier.bench import Bench

NODE = NodeInfo(
    generation=1,
    node="ruby",
    machine="mine",
    place="here",
    pid=4711,
    born=1.5,
    workers=2,
    lease_left=0.0,
)


def test_replay_gives_back_what_a_generation_held(bench: Bench) -> None:
    bench.open(*bench.requests(6))
    mine, others = bench.claim(3, generation=1), bench.claim(2, generation=2)
    assert bench.leases.replay(1) == 3
    assert bench.places() == (4, 2, 0, 0)
    again = {request.rid: request for request in bench.claim(generation=3)}
    assert {request.rid for request in mine} < set(again)
    assert [again[request.rid].deliveries for request in mine] == [1, 1, 1]
    assert not {request.rid for request in others} & set(again)
    assert bench.leases.replay(1) == 0


def test_replay_moves_only_what_is_still_owned(bench: Bench) -> None:
    bench.open(*bench.requests(4))
    completed, retried, parked, held = bench.claim(generation=1)
    bench.complete(completed)
    bench.retry(retried, 60_000)
    bench.park(parked)
    assert bench.leases.replay(1) == 1
    assert bench.places() == (1, 0, 1, 1)
    [again] = bench.claim(generation=2)
    assert again.rid == held.rid


def test_replay_of_very_many(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(store=PartitionedStore)
    bench.open()
    bench.frontier.admit(1, bench.requests(1234))
    assert len(bench.claim_all()) == 1234
    assert bench.leases.replay(1) == 1234
    assert bench.places() == (1234, 0, 0, 0)


def test_a_replay_that_was_cut_short_can_be_repeated(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(store=PartitionedStore)
    bench.open()
    bench.frontier.admit(1, bench.requests(700))
    bench.claim_all()
    bench.leases.renew(1, 15)
    bench.leases.announce(NODE)
    assert bench.store.run("replay", 0, 1) == [500, 200]
    assert bench.frontier.audit() == []
    assert 1 in bench.leases.left()
    assert bench.leases.replay(1) == 200
    assert bench.leases.left() == {}
    assert bench.leases.nodes() == []


def test_nothing_of_a_replayed_generation_is_left_but_its_fence(bench: Bench) -> None:
    bench.open(bench.request("one"))
    bench.leases.renew(1, 15)
    bench.leases.announce(NODE)
    bench.complete_all(bench.claim())
    bench.frontier.close_tasks([1])
    bench.leases.replay(1)
    assert bench.dump() == {bench.key("FENCED"): {b"1"}}


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_lease_ends_by_the_clock_of_redis(
    make_bench: Callable[..., Bench], partitions: int
) -> None:
    bench = make_bench(partitions=partitions)
    bench.leases.renew(1, 15)
    bench.leases.renew(2, 0.001)
    bench.after(bench.now() + 2)
    left = bench.leases.left()
    assert 10 < left[1] <= 15
    assert left[2] < 0
    bench.leases.renew(2, 30)
    assert 25 < bench.leases.left()[2] <= 30


def test_a_dead_generation_cannot_renew(bench: Bench) -> None:
    bench.leases.renew(1, 15)
    bench.leases.replay(1)
    with pytest.raises(Fenced, match="generation 1"):
        bench.leases.renew(1, 15)
    assert bench.leases.left() == {}
    bench.leases.renew(2, 15)


def test_all_lives_are_listed(bench: Bench) -> None:
    for generation in range(1, 6):
        bench.leases.renew(generation, 15)
    assert {*bench.leases.left()} == {1, 2, 3, 4, 5}


def test_nodes_are_known_until_they_are_replayed(bench: Bench) -> None:
    for generation, name in ((2, "opal"), (1, "ruby")):
        bench.leases.renew(generation, 15)
        bench.leases.announce(replace(NODE, generation=generation, node=name))
    ruby, opal = bench.leases.nodes()
    assert (ruby.generation, ruby.node, opal.generation, opal.node) == (1, "ruby", 2, "opal")
    assert 10 < ruby.lease_left <= 15
    bench.leases.replay(1)
    assert [node.node for node in bench.leases.nodes()] == ["opal"]


def test_whoever_replays_and_dies_leaves_it_to_another(make_bench: Callable[..., Bench]) -> None:
    """In the middle of a replay over several partitions: the lease stays until all is done."""
    bench = make_bench(partitions=3, store=PartitionedStore)
    bench.open(*(bench.request(c, f"{c}.example") for c in "abcdefghij"))
    bench.leases.renew(1, 15)
    assert len(bench.claim_all(3)) == 10
    left = [1]
    while left[-1]:
        _, left[-1] = bench.store.run("replay", 1, 1)
    assert 1 in bench.leases.left()
    bench.leases.replay(1)
    assert bench.leases.left() == {}
    assert bench.places() == (10, 0, 0, 0)


def test_the_slots_of_a_dead_generation_are_free_again(bench: Bench) -> None:
    bench.open(*bench.requests(5), concurrency=2)
    assert len(bench.claim(generation=1)) == 2
    assert bench.claim(generation=2) == []
    bench.leases.replay(1)
    assert len(bench.claim(generation=2)) == 2


def test_an_entry_of_the_list_that_it_does_not_hold_is_dropped(bench: Bench) -> None:
    bench.open(*bench.requests(2))
    mine, other = bench.claim(1, generation=1), bench.claim(1, generation=2)
    bench.redis.sadd(bench.key("INPROGRESS", 1), other[0].rid, b"x" * 16)
    assert bench.leases.replay(1) == 1
    assert bench.places() == (1, 1, 0, 0)
    assert bench.claim(generation=3)[0].rid == mine[0].rid
