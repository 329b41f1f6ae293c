"""claim: the requests of a generation, their order, and the wait for more."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from redis import Redis

from crawlframe.errors import Fenced
from crawlframe.frontier import Claimed
from crawlframe.frontier.client.partitions import PartitionedStore
from tests.frontier.bench import Bench, Losing


def test_a_claim_tells_all_of_a_request(bench: Bench) -> None:
    bench.open(bench.request("one", "a.example:8080"), task=12)
    claim = bench.whole_claim()
    [request] = claim.requests
    assert request.task == 12
    assert (request.host, request.record) == ("a.example:8080", b"one")
    assert (request.attempts, request.deliveries) == (0, 0)
    assert claim.tasks[12].state == "running"
    assert bench.places(12) == (0, 1, 0, 0)


@pytest.mark.parametrize(
    "host",
    [
        "a.example",
        "a.example:8080",
        "[::1]",
        "[2001:db8::1]:8443",
        "bücher.example",
        "ホスト",
        "a b|c",
    ],
)
def test_any_host_name(bench: Bench, host: str) -> None:
    bench.open(bench.request("one", host))
    [request] = bench.claim()
    assert request.host == host
    bench.retry(request)
    [request] = bench.claim_all()
    assert request.host == host
    assert bench.complete(request) == {1}


def test_any_record(bench: Bench) -> None:
    records = [bytes(range(256)), "Zürich – 東京 😀".encode(), b"", b"\x00", b"12", b"x" * 100_000]
    bench.open(*(bench.request(str(i), record=record) for i, record in enumerate(records)))
    assert [request.record for request in bench.claim()] == records


def test_order_is_task_priority_then_priority_then_depth_then_arrival(bench: Bench) -> None:
    bench.open(
        bench.request("deep", depth=2),
        bench.request("first", depth=1),
        bench.request("second", depth=1),
        bench.request("urgent", depth=9, priority=1),
        bench.request("idle", priority=-1),
    )
    bench.open(bench.request("privileged", task=2, task_priority=1, depth=3), task=2)
    bench.open(bench.request("humble", task=3, task_priority=-1, priority=9), task=3)
    order = ["privileged", "urgent", "first", "second", "deep", "idle", "humble"]
    claimed = [request for _ in range(len(order)) for request in bench.claim(1)]
    assert bench.names(claimed) == order


def test_tasks_take_turns_whatever_their_depth(bench: Bench) -> None:
    bench.open(*bench.requests(30, task=1), task=1)
    bench.open(*bench.requests(30, task=2, depth=7), task=2)
    bench.open(bench.request("urgent", task=3, priority=1, depth=9), task=3)
    assert [request.task for request in bench.claim(1)] == [3]
    tasks = [request.task for _ in range(60) for request in bench.claim(1)]
    assert [sorted(tasks[i : i + 2]) for i in range(0, 60, 2)] == [[1, 2]] * 30


def test_a_task_with_many_depths_hides_no_other(bench: Bench) -> None:
    """Its lanes run dry one after the other, and each of them had its last turn long ago."""
    bench.open(*(bench.request(f"1/{depth}", depth=depth) for depth in range(40)))
    bench.open(*bench.requests(40, task=2, depth=90), task=2)
    claimed = [request for _ in range(80) for request in bench.claim(1)]
    tasks = [request.task for request in claimed]
    assert [sorted(tasks[i : i + 2]) for i in range(0, 80, 2)] == [[1, 2]] * 40
    assert bench.names(one for one in claimed if one.task == 1) == [f"1/{n}" for n in range(40)]


def test_who_had_a_turn_stays_before_lower_ranks(bench: Bench) -> None:
    bench.open(*bench.requests(3, depth=0), *bench.requests(6, depth=1)[3:])
    assert bench.names(bench.claim(1)[0] for _ in range(6)) == [f"a.example/{n}" for n in range(6)]


def test_turns_go_on_when_lanes_run_dry_and_fill_again(bench: Bench) -> None:
    """A lane that fills again comes after the lane that has been waiting."""
    bench.open(*bench.requests(9, task=1), task=1)
    bench.open(bench.request("2a", task=2), task=2)
    seen = [request.task for _ in range(5) for request in bench.claim(1)]
    assert sorted(seen) == [1, 1, 1, 1, 2]
    for name in ("2b", "2c"):
        bench.frontier.admit(2, [bench.request(name, task=2)])
        assert [request.task for _ in range(2) for request in bench.claim(1)] == [1, 2]


def test_a_host_keeps_its_place_when_it_gets_more(bench: Bench) -> None:
    bench.open(bench.request("a1"))
    bench.after(bench.now())
    bench.frontier.admit(1, [bench.request("b1", "b.example")])
    bench.after(bench.now())
    bench.frontier.admit(1, [bench.request("a2", depth=1)])
    assert bench.names(bench.claim(1)) == ["a1"]


def test_a_concurrency_of_none_is_one(bench: Bench) -> None:
    """Otherwise the host would be hidden for ever."""
    bench.open(*bench.requests(2), concurrency=0)
    [one] = bench.claim()
    bench.complete(one)
    assert len(bench.claim()) == 1


def test_a_claim_is_shared_out_over_hosts(bench: Bench) -> None:
    hosts = ["a.example", "b.example", "c.example"]
    bench.open(*(request for host in hosts for request in bench.requests(50, host)))
    claimed = bench.claim(9)
    assert sorted(request.host for request in claimed) == sorted(hosts * 3)


def test_hosts_take_turns(bench: Bench) -> None:
    """A host whose slots become free does not come before hosts that have been waiting."""
    hosts = [f"h{i}.example" for i in range(12)]
    requests = [request for host in hosts for request in bench.requests(3, host)]
    bench.open(*requests, concurrency=1)
    served = []
    for _ in range(3):
        claimed = bench.claim(4)
        served += [request.host for request in claimed]
        bench.after(bench.now())
        bench.complete_all(claimed)
    assert sorted(served) == sorted(hosts)


def test_no_more_than_was_asked_for(bench: Bench) -> None:
    bench.open()
    hosts = [f"h{i}.example" for i in range(40)]
    bench.frontier.admit(1, [request for host in hosts for request in bench.requests(20, host)])
    for n in (1, 7, 64):
        assert len(bench.claim(n)) == n
    assert len(bench.claim(5000)) == 500
    assert len(bench.claim_all()) == 800 - 572


def test_no_more_than_was_asked_for_of_several_lanes(bench: Bench) -> None:
    bench.open(*bench.requests(2), *bench.requests(10, depth=1)[2:])
    assert len(bench.claim(3)) == 3


def test_the_same_sequence_number_answers_the_same_batch(bench: Bench) -> None:
    bench.open(*bench.requests(10))
    first = bench.frontier.claim(1, 1, 4)
    before = bench.dump()
    assert bench.frontier.claim(1, 1, 4).requests == first.requests
    assert bench.frontier.claim(1, 1, 9).requests == first.requests
    assert bench.dump() == before
    other = bench.frontier.claim(2, 1, 4).requests
    assert not {request.rid for request in other} & {request.rid for request in first.requests}
    assert len(bench.frontier.claim(1, 2, 4).requests) == 2


def test_a_batch_is_answered_again_without_what_has_gone_since(bench: Bench) -> None:
    bench.open(*bench.requests(4))
    first = bench.frontier.claim(1, 1, 4).requests
    bench.complete(first[0])
    bench.retry(first[1], 60_000)
    bench.release(first[2])
    bench.sequences[2] = 1
    assert [request.rid for request in bench.claim(4, generation=2)] == [first[2].rid]
    assert bench.frontier.claim(1, 1, 4).requests == [first[3]]


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_no_partition_forgets_a_batch_whose_answer_was_lost(
    make_bench: Callable[..., Bench], lost: int
) -> None:
    """The answer of one partition is lost; before the claim is repeated, others fill up."""

    bench = make_bench(partitions=3, store=Losing)
    bench.store.lost = lost
    bench.open()
    hosts = {bench.store.partition_of(f"{c}.example"): f"{c}.example" for c in "abcdefgh"}
    last = hosts[(1 + lost - 1) % 3]  # the claim of sequence 1 asks partition 1 first
    bench.frontier.admit(1, bench.requests(2, last))
    with pytest.raises(ConnectionError):
        bench.frontier.claim(1, 1, 2)
    for host in hosts.values():
        bench.frontier.admit(1, [bench.request(f"{host} {i}", host) for i in range(5)])
    found = bench.frontier.claim(1, 1, 2).requests
    assert len(found) == 2
    held = bench.redis.smembers(bench.key("INPROGRESS", 1, (1 + lost - 1) % 3))
    assert held == {request.rid for request in found}
    assert bench.counts().in_progress == 2


def test_a_full_claim_says_that_other_partitions_may_have_more(
    make_bench: Callable[..., Bench],
) -> None:
    bench = make_bench(partitions=2)
    hosts = {bench.store.partition_of(f"{c}.example"): f"{c}.example" for c in "abcd"}
    bench.open(*(bench.request(host, host) for host in hosts.values()))
    for _ in range(2):
        assert len(bench.claim(1)) == 1
        assert bench.wait == 0
    assert bench.claim(1) == []
    assert bench.wait == -1


def test_a_fenced_generation_gets_nothing(bench: Bench) -> None:
    bench.open(bench.request("one"))
    bench.leases.replay(1)
    before = bench.dump()
    with pytest.raises(Fenced, match="generation 1"):
        bench.claim(generation=1)
    assert bench.dump() == before
    assert bench.names(bench.claim(generation=2)) == ["one"]


# -- politeness -----------------------------------------------------------------------------------


def test_the_delay_of_a_host_holds_over_generations(bench: Bench) -> None:
    bench.open(*bench.requests(4), bench.request("other", "b.example"), delay=60)
    assert len(bench.claim(10, generation=1)) == 2  # one of each host
    next_times = [float(bench.redis.hget(bench.key("HOST", "a.example"), "n"))]
    for generation in (2, 1, 2):
        while not (claimed := bench.claim(10, generation)):
            assert bench.wait <= 60
        assert len(claimed) == 1
        bench.complete_all(claimed)
        next_times.append(float(bench.redis.hget(bench.key("HOST", "a.example"), "n")))
    assert all(b - a >= 60 for a, b in pairwise(next_times))
    assert bench.now() + 55 >= next_times[-2]  # claimed that much ahead


def test_the_delay_outlives_the_host(bench: Bench) -> None:
    """The host has nothing waiting or in flight; its next request must not come too early."""
    bench.open(bench.request("one"), delay=150)
    [one] = bench.claim()
    key = bench.key("HOST", "a.example")
    next_time = float(bench.redis.hget(key, "n"))
    bench.complete(one, bench.request("far", "far.example", delay=60_000))
    assert bench.redis.pttl(key) >= 0 or bench.now() >= next_time
    bench.frontier.admit(1, [bench.request("two")])
    while not (found := bench.claim()):
        assert 0 <= bench.wait <= 150
    assert bench.names(found) == ["two"]
    assert float(bench.redis.hget(key, "n")) >= next_time + 150
    bench.after(int(next_time) + 2)
    assert bench.redis.hget(key, "a") == b"1"  # a number in flight is not forgotten
    bench.complete_all(found)
    bench.after(bench.now() + 151)
    assert not bench.redis.exists(key)


def test_two_tasks_share_the_delay_of_a_host(bench: Bench) -> None:
    for task in (1, 2):
        bench.open(*bench.requests(2, task=task), task=task, delay=60_000)
    assert len(bench.claim()) == 1
    assert bench.claim() == []
    assert 0 < bench.wait <= 60_000
    assert bench.claim(generation=2) == []


def test_a_lane_of_leftovers_costs_no_delay(bench: Bench) -> None:
    gone = bench.request("gone", depth=0)
    bench.open(gone, *bench.requests(2, depth=1), delay=60_000)
    bench.complete(gone)
    assert len(bench.claim()) == 1


def test_the_time_of_a_host_is_kept_whatever_its_place_says(bench: Bench) -> None:
    bench.open(*bench.requests(2), delay=60_000)
    bench.claim()
    bench.redis.zadd(bench.key("HOSTS"), {"a.example": 0})
    assert bench.claim() == []
    assert 0 < bench.wait <= 60_000


def test_concurrency_holds_over_generations(bench: Bench) -> None:
    bench.open(*bench.requests(10), concurrency=3)
    held = bench.claim(2, generation=1) + bench.claim(5, generation=2)
    assert len(held) == 3
    assert bench.claim(5, generation=1) == []
    assert bench.wait == -1
    bench.complete(held[0])
    assert len(bench.claim(5, generation=2)) == 1
    assert bench.claim(5, generation=1) == []


@pytest.mark.parametrize("verb", ["complete", "retry", "release", "park", "replay"])
def test_a_full_host_comes_back_when_a_slot_is_free(bench: Bench, verb: str) -> None:
    bench.open(*bench.requests(4), concurrency=1)
    [held] = bench.claim()
    assert bench.claim(generation=2) == []
    assert bench.wait == -1
    bench.give_up(held, verb)
    assert len(bench.claim(generation=2)) == 1
    assert bench.claim(generation=2) == []


def test_a_task_starts_a_request_only_below_its_own_concurrency(bench: Bench) -> None:
    """Two tasks on one host, limits 5 and 2: neither starts above its own, neither starves."""
    bench.open(*bench.requests(20, task=1), task=1, concurrency=5)
    bench.open(*bench.requests(20, task=2), task=2, concurrency=2)
    held: list[Claimed] = []
    seen = {1: 0, 2: 0}
    for _ in range(200):
        in_flight = len(held)
        for request in bench.claim(50):
            assert in_flight < {1: 5, 2: 2}[request.task]
            in_flight += 1
            seen[request.task] += 1
            held.append(request)
        if not held:
            break
        bench.complete(held.pop(0))
        assert seen[1] <= 15 or seen[2] >= 2
    assert seen == {1: 20, 2: 20}


def test_a_slow_task_is_not_starved_by_a_quick_one(bench: Bench) -> None:
    bench.open(*bench.requests(500, task=1), task=1)
    bench.open(*bench.requests(2, task=2), task=2, concurrency=1)
    held = bench.claim(20)
    served = [request.task for request in held]
    for _ in range(200):
        if 2 in served:
            break
        bench.complete(held.pop(0))
        claimed = bench.claim(1)
        held += claimed
        served += [request.task for request in claimed]
    assert 2 in served


def test_a_task_that_finds_no_slot_keeps_its_turn(bench: Bench) -> None:
    bench.open(*bench.requests(2, task=1), task=1, concurrency=2)
    bench.open(*bench.requests(2, task=2), task=2, concurrency=1)
    [first] = bench.claim(1)
    assert first.task == 1
    assert bench.claim(1) == []  # it is the turn of task 2
    bench.complete(first)
    assert [request.task for request in bench.claim(1)] == [2]


# -- states ---------------------------------------------------------------------------------------


def test_a_paused_task_is_skipped(bench: Bench) -> None:
    bench.open(*bench.requests(3, task=1), task=1)
    bench.open(*bench.requests(3, task=2), task=2)
    bench.frontier.pause(1)
    assert {request.task for request in bench.claim_all()} == {2}
    assert bench.wait == -1
    bench.frontier.resume(1)
    assert len(bench.claim_all()) == 3


def test_a_host_without_anything_to_give_is_not_looked_at_again(bench: Bench) -> None:
    one, two = bench.request("one", "a.example"), bench.request("two", "b.example", task=2)
    bench.open(one)
    bench.open(two, task=2)
    bench.frontier.pause(2)
    bench.complete(one)
    bench.frontier.close_tasks([1])
    assert bench.claim() == []
    assert bench.wait == -1


def test_a_host_of_as_many_paused_lanes_as_a_claim_looks_at(
    make_bench: Callable[..., Bench],
) -> None:
    bench = make_bench(store=PartitionedStore)
    for task in range(1, 17):
        bench.open(bench.request("one", task=task), task=task)
        bench.frontier.pause(task)
    assert bench.claim() == []
    assert bench.wait == -1


def test_twenty_paused_lanes_do_not_hide_a_host(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(store=PartitionedStore)
    for task in range(1, 21):
        bench.open(bench.request("one", task=task, task_priority=1), task=task)
        bench.frontier.pause(task)
    bench.open(*bench.requests(2, task=99), task=99)
    assert {request.task for request in bench.claim_all()} == {99}
    for task in range(1, 21):
        bench.frontier.resume(task)
    assert {request.task for request in bench.claim_all()} == set(range(1, 21))


def test_what_comes_back_to_a_paused_task_waits(bench: Bench) -> None:
    bench.open(*bench.requests(5))
    held = bench.claim(3)
    bench.frontier.pause(1)
    bench.release(held[0])
    bench.retry(held[1])
    bench.complete(held[2], bench.request("new"), bench.request("other", "b.example"))
    bench.after(bench.now() + 1)
    assert bench.claim_all() == []
    bench.frontier.resume(1)
    assert len(bench.claim_all()) == 6


def test_a_cancelled_task_is_handed_out_past_all_limits(bench: Bench) -> None:
    """Requests that the cancel has not reached."""
    bench.open(*bench.requests(30), concurrency=1, delay=0)
    bench.begin_cancel(1)
    claim = bench.whole_claim()
    assert len(claim.requests) == 30
    assert claim.tasks[1].state == "cancelling"


@pytest.mark.parametrize("limits", [{"delay": 60_000}, {"concurrency": 1}])
def test_a_cancelled_task_does_not_wait_for_a_better_one(bench: Bench, limits: dict) -> None:
    bench.open(*bench.requests(9, task=1, task_priority=1), task=1, **limits)
    bench.open(*bench.requests(9, task=2), task=2, **limits)
    bench.begin_cancel(2)
    assert sorted(request.task for request in bench.claim()) == [1] + [2] * 9


def test_what_is_only_ended_costs_no_delay(bench: Bench) -> None:
    bench.open(*bench.requests(2, task=1), task=1, delay=60_000)
    bench.begin_cancel(1)
    assert len(bench.claim()) == 2
    bench.open(bench.request("other", task=2), task=2)
    assert bench.names(bench.claim()) == ["other"]


def test_lanes_of_a_forgotten_task_fall_out(bench: Bench) -> None:
    one = bench.request("one", task=1)
    bench.open(one, task=1)
    bench.open(bench.request("two", task=2), task=2)
    bench.complete(one)  # it was ready: another run had recorded it
    bench.frontier.close_tasks([1])
    assert bench.redis.exists(bench.key("LANE", f"1:{one.rank}:a.example"))
    assert bench.names(bench.claim_all()) == ["two"]
    assert not bench.redis.exists(bench.key("LANE", f"1:{one.rank}:a.example"))


def test_what_was_completed_while_ready_is_not_given(bench: Bench) -> None:
    requests = bench.requests(5)
    bench.open(*requests)
    for request in (requests[0], requests[2], requests[4]):
        bench.complete(request)
    assert bench.names(bench.claim()) == ["a.example/1", "a.example/3"]


def test_a_lane_of_nothing_but_leftovers(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(store=PartitionedStore)
    bench.open()
    requests = bench.requests(1500)
    bench.frontier.admit(1, [*requests, bench.request("last")])
    bench.frontier.complete([bench.completion(request) for request in requests])
    assert bench.names(bench.claim_all(3)) == ["last"]
    assert bench.complete(bench.request("last")) == {1}
    assert not bench.redis.keys("*q:*")


@pytest.mark.parametrize("concurrency", [2, 3])
def test_leftovers_are_nobodys_share(bench: Bench, concurrency: int) -> None:
    gone, *others = bench.requests(2 + concurrency)
    bench.open(gone, *others, concurrency=concurrency)
    bench.complete(gone)
    held = bench.claim()
    assert len(held) == concurrency
    bench.complete_all(held)
    assert len(bench.claim()) == 1
    assert bench.claim() == []
    assert bench.wait == -1


def test_a_lane_that_ends_with_the_share_is_done(bench: Bench) -> None:
    gone, last = bench.requests(2)
    bench.open(gone, last, concurrency=2)
    bench.complete(gone)
    bench.complete_all(bench.claim())
    assert bench.claim() == []
    assert bench.wait == -1


def test_an_entry_that_is_there_twice_is_given_once(bench: Bench) -> None:
    """Such an entry is damage; fetched twice at a time, a request would have two holders."""
    one, two = bench.requests(2)
    bench.open(one, two)
    lane = bench.key("LANE", f"1:{one.rank}:a.example")
    bench.redis.rpush(lane, one.rid)
    assert len(bench.claim()) == 2
    bench.frontier.admit(1, [bench.request("three")])
    bench.redis.rpush(lane, one.rid)
    assert bench.names(bench.claim()) == ["three"]


# -- waiting --------------------------------------------------------------------------------------


def test_wait_tells_when_the_next_is_due(bench: Bench) -> None:
    bench.open(*bench.requests(3))
    assert len(bench.claim(2)) == 2
    assert bench.wait == 0
    assert len(bench.claim(2)) == 1
    assert bench.wait == -1
    bench.frontier.admit(1, [bench.request("late", delay=60_000), *bench.requests(5)[3:]])
    assert len(bench.claim(1)) == 1
    assert bench.wait == 0
    bench.claim()
    assert 50_000 < bench.wait <= 60_000
    bench.open(*bench.requests(2, "slow.example", task=2), task=2, delay=20_000)
    bench.claim()
    bench.claim()
    assert 10_000 < bench.wait <= 20_000
    bench.frontier.admit(1, [bench.request("soon", delay=9_000)])
    bench.claim()
    assert 0 < bench.wait <= 9_000


def test_many_due_at_once(bench: Bench) -> None:
    """More delayed requests fall due than one claim moves."""
    bench.open()
    late = [bench.request(f"late {i}", f"h{i % 7}.example", delay=1) for i in range(450)]
    bench.frontier.admit(1, late)
    assert bench.counts().delayed == 450
    bench.after(bench.now() + 2)
    assert sorted(bench.names(bench.claim_all())) == sorted(bench.names(late))


def test_one_damaged_entry_does_not_stop_a_partition(redis_client: Redis) -> None:
    bench = Bench(redis_client)
    bench.open(bench.request("late", delay=1), bench.request("later", delay=2))
    bench.redis.zadd(bench.key("DELAYED"), {b"nobody": 0})
    bench.after(bench.now() + 3)
    assert sorted(bench.names(bench.claim_all())) == ["late", "later"]
    assert bench.frontier.audit() == []


def test_a_due_time_of_a_request_that_is_held_gives_it_to_nobody(bench: Bench) -> None:
    bench.open(bench.request("one"))
    [held] = bench.claim()
    bench.redis.zadd(bench.key("DELAYED"), {held.rid: 0})
    assert bench.claim(generation=2) == []
    assert not bench.redis.exists(bench.key("DELAYED"))
    assert bench.places() == (0, 1, 0, 0)


def test_nothing_is_left_of_a_host_without_requests(bench: Bench) -> None:
    """Of two lanes, one is claimed and completed; the other's requests were completed elsewhere."""
    first, second = bench.request("first"), bench.request("second", depth=1)
    bench.open(first, second, bench.request("other", "b.example"))
    claimed = bench.claim(1)
    while bench.names(claimed) != ["first"]:
        claimed = bench.claim(1)
    bench.complete(second)
    bench.complete(first)
    bench.claim_all()
    assert not bench.redis.keys("*a.example*")
