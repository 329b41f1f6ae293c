"""Layers: no request deeper than its task's layer is handed out; counters say when it is done."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from crawlframe.frontier import Completion
from crawlframe.frontier.client.partitions import PartitionedStore
from crawlframe.request.request import end_admission, root_admission
from tests.frontier.bench import Bench, seeds

LAYERS = 3


def is_done(bench: Bench, layer: int, task: int = 1) -> bool:
    """Whether the layer is done, as the steward decides it."""
    if not bench.frontier.layers.reached(task).is_at(layer):
        return False
    counts = bench.frontier.counts(task)
    held = counts.delayed > 0 and bench.frontier.holds_last(task)
    return bool(counts.nr - held == counts.beyond)


def beyond(bench: Bench) -> int:
    return bench.frontier.counts(1).beyond


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_later_layer_waits(make_bench: Callable[..., Bench], partitions: int) -> None:
    bench = make_bench(partitions=partitions)
    bench.open(bench.request("a"), bench.request("b", "b.example"), layers=LAYERS)
    a, b = sorted(bench.claim_all(), key=lambda one: one.host)
    bench.complete(a, bench.request("a1", depth=1), bench.request("b1", "b.example", depth=1))
    assert bench.claim_all() == []
    assert (beyond(bench), is_done(bench, 0)) == (2, False)
    bench.complete(b, bench.request("c1", "c.example", depth=1))
    assert (beyond(bench), is_done(bench, 0)) == (3, True)
    assert bench.claim_all() == []
    bench.frontier.layers.go_on(1, 1)
    assert (beyond(bench), is_done(bench, 1)) == (0, False)
    assert sorted(bench.names(bench.claim_all())) == ["a1", "b1", "c1"]


def test_a_task_without_layers_keeps_nothing_back(bench: Bench) -> None:
    bench.open(bench.request("a"), bench.request("b", depth=1))
    assert bench.names(bench.claim_all()) == ["a", "b"]
    assert bench.frontier.layers.reached(1).layers == [None]
    bench.frontier.layers.go_on(1, 1)
    assert not bench.redis.hexists(bench.key("TASK", 1), "layer")


def test_a_layer_is_not_done_while_a_request_waits_in_any_way(bench: Bench) -> None:
    names = ["retried", "parked", "released", "moved", "held", "late"]
    seeds = [bench.request(name) for name in names[:-1]]
    bench.open(*seeds, bench.request("late", delay=60_000), layers=LAYERS)
    held = {bench.name_of[one.rid]: one for one in bench.claim_all()}
    bench.retry(held["retried"], 60_000)
    bench.park(held["parked"])
    bench.release(held["released"])
    bench.redirect(held["moved"], "other.example")
    left = {bench.name_of[one.rid]: one for one in seeds}
    left["late"] = bench.request("late", delay=60_000)
    for name in names:
        assert not is_done(bench, 0)
        bench.complete(left[name], bench.request(f"{name}/1", depth=1))
    assert is_done(bench, 0)


def test_given_back_requests_of_the_layer_are_shown_again(bench: Bench) -> None:
    bench.open(bench.request("a", depth=2), layers=LAYERS, layer=2)
    for give in (bench.release, bench.retry, bench.park):
        (one,) = bench.claim_all()
        give(one)
        if give == bench.park:
            bench.frontier.unpark(1)
    assert bench.names(bench.claim_all()) == ["a"]


def test_a_delayed_request_of_a_later_layer_waits_for_both(bench: Bench) -> None:
    bench.open(bench.request("a"), layers=LAYERS)
    (a,) = bench.claim_all()
    bench.complete(a, bench.request("b", depth=1, delay=1))
    assert is_done(bench, 0)
    while bench.counts().delayed:
        assert bench.claim_all() == []
    assert is_done(bench, 0)
    bench.frontier.layers.go_on(1, 1)
    assert bench.names(bench.claim_all()) == ["b"]


def test_the_run_of_start_and_the_last_request(bench: Bench) -> None:
    """Layer 0 is not done while start runs; the last request of a task belongs to no layer."""
    bench.open(root_admission(1), end_admission(1), layers=LAYERS)
    (root,) = bench.claim_all()
    bench.store.run("push", 0, root.rid, 1, 0, _packed(bench.request("a")), 1)
    (a,) = bench.claim_all()
    bench.complete(a, bench.request("b", depth=1))
    assert not is_done(bench, 0)
    bench.frontier.complete([Completion(root.rid, 1, root.host, False, [bench.request("a")])])
    bench.complete_all(bench.claim_all())
    assert is_done(bench, 0)
    assert not bench.frontier.begin_last(1)
    bench.frontier.layers.go_on(1, 1)
    bench.complete_all(bench.claim_all())
    assert bench.frontier.begin_last(1)


def _packed(*admissions: Any) -> Any:
    from crawlframe.frontier.client.partitions import pack
    from crawlframe.frontier.client.records import groups

    return pack(groups([*admissions]))


def test_dont_filter_and_duplicates_count_once(bench: Bench) -> None:
    bench.open(bench.request("a"), layers=LAYERS)
    (a,) = bench.claim_all()
    b = bench.request("b", depth=1)
    bench.complete(a, b, b, bench.request("a", depth=1))
    assert (beyond(bench), bench.counts().duplicates) == (1, 2)


def test_pause_and_resume_keep_the_barrier(bench: Bench) -> None:
    bench.open(bench.request("a"), bench.request("b", depth=1), layers=LAYERS)
    bench.frontier.pause(1)
    assert bench.claim_all() == []
    bench.frontier.resume(1)
    (a,) = bench.claim_all()
    assert bench.name_of[a.rid] == "a"
    bench.complete(a)
    bench.frontier.pause(1)
    bench.frontier.layers.go_on(1, 1)
    assert bench.claim_all() == []
    bench.frontier.resume(1)
    assert bench.names(bench.claim_all()) == ["b"]


@pytest.mark.parametrize("partitions", [1, 3])
def test_cancel_ends_later_layers_too(make_bench: Callable[..., Bench], partitions: int) -> None:
    bench = make_bench(partitions=partitions)
    deep = [bench.request(f"d{i}", f"h{i}.example", depth=1 + i % 3) for i in range(9)]
    late = bench.request("late", "z.example", depth=2, delay=60_000)
    bench.open(bench.request("a"), *deep, late, layers=LAYERS)
    (a,) = bench.claim_all()
    bench.frontier.cancel(1)
    assert bench.frontier.counts(1).cancelled == 10
    later = beyond(bench)
    bench.complete(a, bench.request("x", "x.example", depth=1))
    assert (bench.frontier.counts(1).nr, beyond(bench)) == (0, later)
    bench.frontier.close_tasks([1])
    assert not [key for key in bench.dump() if ":deep:" in key or ":q:" in key or ":task:" in key]


def test_very_many_lanes_are_shown(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(store=PartitionedStore)
    bench.open(bench.request("a"), layers=LAYERS)
    hosts = [f"h{i}.example" for i in range(1100)]
    bench.frontier.admit(1, [bench.request(host, host, depth=1) for host in hosts])
    bench.complete_all(bench.claim_all())
    # A steward that died after the first call: the next one sees that something is hidden.
    assert bench.store.run("layer", 0, 1, 1) == 600
    assert bench.frontier.layers.reached(1).hidden
    assert not bench.frontier.layers.reached(1).is_at(1)
    assert bench.frontier.audit() == []
    bench.frontier.layers.go_on(1, 1)
    assert bench.frontier.layers.reached(1).is_at(1)
    assert len(bench.claim_all()) == 1100


def test_it_never_goes_back(bench: Bench) -> None:
    bench.open(bench.request("a", depth=2), layers=LAYERS)
    bench.frontier.layers.go_on(1, 2)
    bench.frontier.layers.go_on(1, 1)
    assert bench.frontier.layers.reached(1).layers == [2]
    assert bench.names(bench.claim_all()) == ["a"]


def test_partitions_at_different_layers_are_no_barrier(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(partitions=3)
    bench.open(bench.request("a"), layers=LAYERS)
    bench.store.run("layer", 1, 1, 1)
    reached = bench.frontier.layers.reached(1)
    assert not reached.is_at(0)
    assert not reached.is_at(1)
    assert reached.is_after(0)
    bench.frontier.layers.go_on(1, 1)
    assert bench.frontier.layers.reached(1).is_at(1)


def test_what_the_ledger_has_of_later_layers_leaves_the_count(bench: Bench) -> None:
    """A task whose failed requests are retried starts at the layer of the first of them."""
    bench.open(bench.request("a"), layers=LAYERS)
    b, c = bench.request("b", depth=1), bench.request("c", "c.example", depth=2, delay=60_000)
    bench.frontier.admit(1, [b, c])
    for one, depth in ((b, 1), (c, 2)):
        bench.frontier.complete([Completion(one.rid, 1, one.host, False, [], depth=depth)])
    assert beyond(bench) == 0
    (a,) = bench.claim_all()
    assert bench.name_of[a.rid] == "a"
    bench.frontier.complete([Completion(a.rid, 1, a.host, False, [], depth=0)])


def test_the_audit_finds_what_is_shown_too_early(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(store=PartitionedStore)
    bench.open(bench.request("a"), bench.request("b", depth=1), layers=LAYERS)
    lane = next(iter(bench.redis.zrange(bench.key("DEEP", 1), 0, -1)))
    bench.redis.zrem(bench.key("DEEP", 1), lane)
    _, rank, host = lane.split(b":")
    bench.redis.zadd(bench.key("LANES", host.decode()), {b"1:" + rank: 1})
    assert any("shown before its layer begins" in line for line in bench.frontier.audit())
    bench.claim_all()
    assert any("handed out before its layer" in line for line in bench.frontier.audit())
    bench.redis.hincrby(bench.key("TASK", 1), "beyond", 5)
    assert any("of later layers are counted" in line for line in bench.frontier.audit())
    bench.redis.flushdb()


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("seed", seeds(1, 8))
def test_no_request_is_claimed_before_the_layer_before_is_done(
    make_bench: Callable[..., Bench], partitions: int, seed: int
) -> None:
    """A random crawl with all that may happen to a request, next to a model of each depth."""
    fate = random.Random(seed)
    bench = make_bench(partitions=partitions, store=PartitionedStore)
    depth_of: dict[bytes, int] = {}
    pending: dict[bytes, Any] = {}

    def new(depth: int) -> Any:
        number = fate.randrange(400)
        host, delay = f"h{number % 12}.example", fate.choice((0, 0, 0, 1, 5))
        one = bench.request(f"{number}@{depth}", host, depth=depth, delay=delay)
        if one.rid not in depth_of:
            depth_of[one.rid] = depth
            pending[one.rid] = one
        return one

    bench.open(*[new(0) for _ in range(10)], layers=LAYERS)
    layer, steps, generation = 0, 0, 1
    held: dict[bytes, Any] = {}
    while pending:
        steps += 1
        assert steps < 5000
        for one in bench.claim(fate.randrange(1, 6), generation):
            assert depth_of[one.rid] <= layer
            assert all(
                depth_of[rid] >= depth_of[one.rid] or layer > depth_of[rid] for rid in pending
            )
            # Nothing of an earlier layer is pending, when the layer of this one has begun.
            assert min(depth_of[rid] for rid in pending) >= layer
            held[one.rid] = one
        for one in [one for one in held.values() if fate.random() < 0.5]:
            del held[one.rid]
            match fate.randrange(8):
                case 0:
                    bench.retry(one, fate.randrange(3), generation)
                case 1:
                    bench.release(one, generation=generation)
                case 2:
                    bench.park(one, generation=generation)
                case _:
                    depth = depth_of[one.rid] + 1
                    links = fate.randrange(4) if depth <= LAYERS else 0
                    found = [new(depth) for _ in range(links)]
                    del pending[one.rid]
                    bench.complete(one, *found, failed=fate.random() < 0.2)
        if fate.random() < 0.1:  # the node dies
            bench.leases.replay(generation)
            held.clear()
            generation += 1
        if fate.random() < 0.3:
            bench.frontier.unpark(1)
        if fate.random() < 0.1:
            bench.frontier.pause(1)
            assert bench.claim(5, generation) == []
            bench.frontier.resume(1)
        assert beyond(bench) == sum(depth_of[rid] > layer for rid in pending)
        done = not any(depth_of[rid] <= layer for rid in pending)
        assert is_done(bench, layer) == done
        if done:
            layer += 1
            for partition in fate.sample(range(partitions), fate.randrange(partitions + 1)):
                bench.store.run("layer", partition, 1, layer)  # of a steward that died
            bench.frontier.layers.go_on(1, layer)
    assert layer > 1
    assert bench.frontier.counts(1).nr == 0
