"""audit: it names every kind of damage, so that its silence is meaningful."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from redis import Redis

from crawlframe.frontier import frontier as module
from crawlframe.frontier.client.partitions import PartitionedStore
from crawlframe.frontier.tasks import mark_of
from crawlframe.request.request import Admission, make_rid
from tests.frontier.bench import Bench
from tests.frontier.test_addresses import ONE, begin, settle


class Broken(Bench):
    """One request in each place: in a paused lane, held, parked, delayed and ready."""

    def __init__(self, redis: Redis) -> None:
        super().__init__(redis, store=PartitionedStore)
        self.open(self.request("asleep", "b.example", task=2), task=2)
        self.frontier.pause(2)
        assert self.claim_all() == []
        self.late = self.request("late", delay=60_000)
        self.open(*self.requests(2), self.late)
        self.held, self.parked = self.claim()
        self.park(self.parked, version="v1")
        self.tried = mark_of("v1")
        self.ready = self.request("ready", "c.example")
        self.frontier.admit(1, [self.ready])

    def lane(self, request: Admission) -> str:
        return f"1:{request.rank}:{request.host}"


@pytest.fixture
def broken(redis_client: Redis) -> Broken:
    bench = Broken(redis_client)
    assert bench.frontier.audit() == []
    return bench


def change_counter(name: str, by: int) -> Callable[[Broken], object]:
    return lambda b: b.redis.hincrby(b.key("TASK", 1), name, by)


def set_host(field: str) -> Callable[[Broken], object]:
    return lambda b: b.redis.hset(b.key("HOST", "a.example"), mapping={"x": 1, field: 1})


DAMAGE: dict[str, tuple[Callable[[Broken], object], str]] = {
    "flag of a host that rests": (
        lambda b: b.redis.hset(b.key("HOST", "a.example"), "r", 9**15),
        "host a.example has r, which no claim sees",
    ),
    "watch over a host that has failed": (
        lambda b: b.redis.hset(b.key("HOST", "a.example"), "f", 2),
        "host a.example has failed, and no answer will change that",
    ),
    **{
        f"watch over a host with {field}": (
            set_host(field),
            "host a.example has failed, and no answer will change that",
        )
        for field in "pbu"
    },
    "list entry of a paused host": (
        lambda b: b.redis.hset(b.key("HOST", "a.example"), mapping={"x": 1, "op": 1}),
        "host a.example is paused, and nobody is told",
    ),
    "own entry of a held one": (
        lambda b: b.redis.hdel(b.key("OWN"), b.held.rid),
        "counter inprogress is",
    ),
    "own entry of a delayed one": (
        lambda b: b.redis.hdel(b.key("OWN"), b.late.rid),
        "counter delayed is 1, found 0",
    ),
    "own entry of a parked one": (
        lambda b: b.redis.hdel(b.key("OWN"), b.parked.rid),
        "counter parked is 1, found 0",
    ),
    "request of a held one": (
        lambda b: b.redis.hdel(b.key("REQ"), b.held.rid),
        "has an owner but is not pending",
    ),
    "request of a ready one": (
        lambda b: b.redis.hdel(b.key("REQ"), b.ready.rid),
        "requests remain, ",
    ),
    "request beyond counting": (
        lambda b: b.redis.hset(b.key("REQ"), b"x" * 16, b"r"),
        "requests remain, ",
    ),
    "due time": (
        lambda b: b.redis.zrem(b.key("DELAYED"), b.late.rid),
        "is delayed but has no due time",
    ),
    "due time of nobody": (
        lambda b: b.redis.zadd(b.key("DELAYED"), {b"x" * 16: 5}),
        "1 requests are delayed, 2 have a due time",
    ),
    "reason": (
        lambda b: b.redis.hdel(b.key("PARKED", 1), b.parked.rid),
        "is parked without a reason",
    ),
    "reason of nobody": (
        lambda b: b.redis.hset(b.key("PARKED", 1), b"x" * 16, "why"),
        "2 reasons for 1 parked requests",
    ),
    "parked one in its group": (
        lambda b: b.redis.srem(b.key("PARKED_BY_TRIED", f"1:{b.tried}"), b.parked.rid),
        "is parked but no newer code can find it",
    ),
    "stranger in a group": (
        lambda b: b.redis.sadd(b.key("PARKED_BY_TRIED", f"1:{b.tried}"), b"x" * 16),
        ", 1 are parked",
    ),
    "task of a tried list": (
        lambda b: b.redis.srem(b.key("TASKS_BY_TRIED", b.tried), 1),
        "which newer code cannot find",
    ),
    "task of a tried list without such requests": (
        lambda b: b.redis.sadd(b.key("TASKS_BY_TRIED", b.tried), 2),
        "task 2 lists 0 requests for code other than ",
    ),
    "tried list": (
        lambda b: b.redis.delete(b.key("TRIED_VERSIONS")),
        "1 requests are parked as 1:",
    ),
    "tried list without tasks": (
        lambda b: b.redis.sadd(b.key("TRIED_VERSIONS"), "aaaaaaaa"),
        "no task has tried aaaaaaaa",
    ),
    "marks of a parked one": (
        lambda b: b.redis.hset(b.key("TRIES"), b.parked.rid, "0,0"),
        "task 1 lists 1 requests for code other than ",
    ),
    "list of a generation": (
        lambda b: b.redis.srem(b.key("INPROGRESS", 1), b.held.rid),
        "is held by generation 1 but not on its list",
    ),
    "list of a generation names another": (
        lambda b: b.redis.sadd(b.key("INPROGRESS", 1), b"x" * 16),
        "generation 1 lists 1 requests it does not hold",
    ),
    "list of a generation that holds nothing": (
        lambda b: b.redis.sadd(b.key("INPROGRESS", 9), b"x" * 16),
        "generation 9 lists 1 requests it does not hold",
    ),
    "two places at once": (
        lambda b: b.redis.hset(b.key("OWN"), b.ready.rid, f"d|{b.lane(b.ready)}"),
        "is delayed but has no due time",
    ),
    "fetch of a held one": (
        lambda b: b.redis.hset(b.key("OWN"), b.held.rid, f"1+|1:{b.late.rank}:a.example"),
        "host a.example: -1 requests in flight are not counted",
    ),
    "unknown task": (
        lambda b: b.redis.hset(b.key("OWN"), b.held.rid, "1|77:5:a.example"),
        "belongs to task 77, which is not listed",
    ),
    "lane of an unknown task": (
        lambda b: (
            b.redis.rpush(b.key("LANE", "77:5:a.example"), b"x" * 16),
            b.redis.hset(b.key("REQ"), b"x" * 16, b"r"),
        ),
        "lane 77:5:a.example has 1 requests of a task that is not listed",
    ),
    "task": (lambda b: b.redis.delete(b.key("TASK", 2)), "task 2 is listed but has no counters"),
    "task list": (lambda b: b.redis.srem(b.key("TASKS"), 2), "2:"),
    "entry of a lane": (
        lambda b: b.redis.lrem(b.key("LANE", b.lane(b.ready)), 0, b.ready.rid),
        "but ready ",
    ),
    "lane": (lambda b: b.redis.delete(b.key("LANE", b.lane(b.ready))), "but ready "),
    "lane in the list of its host": (
        lambda b: b.redis.delete(b.key("LANES", "c.example")),
        "has 1 requests but no claim can see it",
    ),
    "host": (
        lambda b: b.redis.zrem(b.key("HOSTS"), "c.example"),
        "host c.example has requests and free slots but no claim can see it",
    ),
    "paused lane": (
        lambda b: b.redis.delete(b.key("PAUSED", 2)),
        "has 1 requests but no claim can see it",
    ),
    "paused lane of a running task": (
        lambda b: b.redis.hset(b.key("TASK", 2), "state", "running"),
        "is paused, but its task is not",
    ),
    "slots of a host": (
        lambda b: b.redis.hincrby(b.key("HOST", "a.example"), "a", -1),
        "host a.example: 1 requests in flight are not counted",
    ),
    "slots taken by nobody": (
        lambda b: b.redis.hset(b.key("HOST", "z.example"), "a", 2),
        "host z.example: -2 requests in flight are not counted",
    ),
    "tries of nobody": (
        lambda b: b.redis.hset(b.key("TRIES"), b"x" * 16, "1,0"),
        "has an entry in cf:{0}:tries but is not pending",
    ),
    "kills of nobody": (
        lambda b: b.redis.hset(b.key("KILLS"), b"x" * 16, "1"),
        "has an entry in cf:{0}:kills but is not pending",
    ),
    "cursor of nobody": (
        lambda b: b.redis.hset(b.key("CURSOR"), b"x" * 16, "500"),
        "has an entry in cf:{0}:cursor but is not pending",
    ),
    "own entry that cannot be read": (
        lambda b: b.redis.hset(b.key("OWN"), b.held.rid, "1"),
        f"{make_rid(1, b'a.example/0').hex()} has an owner that cannot be read",
    ),
    "end of more than there are": (
        lambda b: b.redis.hincrby(b.key("TASK", 1), "nf", 2),
        "task 1: 2 remain but 3 are in progress, delayed or parked",
    ),
    "kinds of errors": (
        lambda b: b.redis.hset(
            b.key("TASK", 1), mapping={"ne": 3, "cancelled": 2, "excluded": 2, "na": 7}
        ),
        "task 1: 2 of 3 errors are counted as cancelled, 2 as excluded",
    ),
    "negative number of cancelled ones": (
        change_counter("cancelled", -1),
        "task 1: -1 of 0 errors are counted as cancelled, 0 as excluded",
    ),
    "negative number of excluded ones": (
        change_counter("excluded", -1),
        "task 1: 0 of 0 errors are counted as cancelled, -1 as excluded",
    ),
    "lease of a dead generation": (
        lambda b: (
            b.redis.sadd(b.key("FENCED"), 1),
            b.redis.zrem(b.key("GENERATIONS"), 1),
        ),
        "generation 1 was declared dead and holds requests that nobody gives back",
    ),
    **{
        f"counter {name} {by:+}": (change_counter(name, by), expected)
        for name, expected in {
            "na": "requests remain, ",
            "nf": "requests remain, ",
            "ne": "requests remain, ",
            "inprogress": "counter inprogress is",
            "delayed": "counter delayed is",
            "parked": "counter parked is",
        }.items()
        for by in (1, -1)
    },
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_it_names_the_damage(broken: Broken, damage: str) -> None:
    spoil, expected = DAMAGE[damage]
    spoil(broken)
    problems = broken.frontier.audit()
    assert any(expected in problem for problem in problems), problems


@pytest.mark.parametrize("damage", [d for d in DAMAGE if d.startswith("counter")])
def test_counters_are_compared_even_when_there_is_too_much_to_walk(
    broken: Broken, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "AUDIT_WALK", 0)
    assert broken.frontier.audit() == []
    DAMAGE[damage][0](broken)
    assert broken.frontier.audit() != []


def test_unusual_but_sound_states_are_not_reported(broken: Broken) -> None:
    """States that are unusual and sound."""
    counters = {"ne": 3, "cancelled": 2, "excluded": 1, "na": 7}
    broken.redis.hset(broken.key("TASK", 1), mapping=counters)
    broken.redis.sadd(broken.key("FENCED"), 1, 9)  # its requests are given back later
    broken.redis.zadd(broken.key("GENERATIONS"), {"1": 0})
    broken.redis.rpush(broken.key("LANE", broken.lane(broken.ready)), b"x" * 16, broken.ready.rid)
    broken.redis.rpush(broken.key("LANE", broken.lane(broken.late)), broken.held.rid)
    broken.redis.rpush(broken.key("LANE", "77:5:a.example"), b"x" * 16)
    broken.redis.hset(broken.key("TASK", 2), mapping={"state": "running", "changing": "1"})
    assert broken.frontier.audit() == []


def test_it_walks_as_many_requests_as_it_may(broken: Broken) -> None:
    broken.redis.zrem(broken.key("HOSTS"), "c.example")
    assert broken.store.run("audit", 0, 4) == [0]  # only its counters are compared
    whole, problem = broken.store.run("audit", 0, 5)
    assert whole == 1
    assert problem == b"host c.example has requests and free slots but no claim can see it"


def test_it_walks_as_many_buckets_as_it_may(redis_client: Redis) -> None:
    bench = Bench(redis_client)
    bench.open(*bench.requests(500))
    redis_client.sadd(bench.key("SEEN", "1:0"), "4711")
    buckets = len([*redis_client.scan_iter(bench.key("SEEN", "1:*"))])
    assert buckets == 3  # the first of two is split
    assert len(bench.store.run("audit", 0, buckets - 1)[1:]) == 0
    assert len(bench.store.run("audit", 0, buckets)[1:]) == 1


def test_a_task_that_is_being_closed_has_lost_fingerprints(redis_client: Redis) -> None:
    bench = Bench(redis_client, store=PartitionedStore)
    bench.open(*bench.requests(2))
    bench.complete_all(bench.claim())
    redis_client.delete(bench.key("SEEN", "1:0"))
    assert bench.frontier.audit() == []


def test_damage_of_addresses(redis_client: Redis) -> None:
    placed = Bench(redis_client, store=PartitionedStore)
    begin(placed, hosts=2, each=1, concurrency=1)
    assert len(settle(placed)) == 1  # the other host waits for the address
    key = placed.key("ADDRESS", ONE)
    assert placed.frontier.audit() == []
    for by, missing in ((-1, 1), (3, -2)):
        placed.redis.hincrby(key, "a", by)
        expected = f"address {ONE}: {missing} requests in flight are not counted"
        assert expected in placed.frontier.audit()
    placed.redis.hset(key, "n", 1)
    placed.redis.hdel(key, "a")
    assert f"address {ONE}: 1 requests in flight are not counted" in placed.frontier.audit()
    placed.redis.hset(key, "a", 0)
    expected = f"address {ONE} has hosts that wait and free slots but no claim can see it"
    assert expected in placed.frontier.audit()
    placed.redis.zadd(placed.key("HOSTS"), {f"@{ONE}": 1})
    assert expected not in placed.frontier.audit()


def test_it_changes_nothing(broken: Broken) -> None:
    before = broken.dump()
    broken.frontier.audit()
    assert broken.dump() == before


def test_very_many_problems_are_no_problem(broken: Broken) -> None:
    broken.redis.hset(broken.key("TRIES"), mapping={i.to_bytes(16): "1,0" for i in range(3000)})
    assert len(broken.frontier.audit()) == 1000


@pytest.mark.parametrize("verb", ["sadd", "srem"])
def test_fingerprints_that_were_not_counted_are_found(redis_client: Redis, verb: str) -> None:
    bench = Bench(redis_client)
    bench.open(*bench.requests(700))
    bucket = bench.key("SEEN", "1:0")
    one = "4711" if verb == "sadd" else redis_client.srandmember(bucket)
    assert getattr(redis_client, verb)(bucket, one) == 1
    (problem,) = bench.frontier.audit()
    kept = 701 if verb == "sadd" else 699
    assert problem == f"task 1: {kept} fingerprints are kept, 700 were counted"


def test_all_partitions_are_looked_at(redis_client: Redis) -> None:
    for partition in range(3):
        redis_client.flushall()
        bench = Bench(redis_client, partitions=3)
        bench.open(*(bench.request(c, f"{c}.example") for c in "abcdef"))
        assert bench.frontier.audit() == []
        redis_client.hincrby(bench.key("TASK", 1, partition), "na", 1)
        assert bench.frontier.audit() != []


def test_counted_right_while_hashes_shrink(redis_client: Redis) -> None:
    """Scans may return an entry twice then."""
    bench = Bench(redis_client, store=PartitionedStore)
    bench.open()
    bench.frontier.admit(1, [bench.request(str(i), f"h{i % 400}.example") for i in range(4000)])
    held = bench.claim_all()
    for start in range(0, 4000, 250):
        bench.complete_all(held[start : start + 250])
        assert bench.frontier.audit() == []


def test_a_host_is_missed_where_its_address_or_its_node_would_look(redis_client: Redis) -> None:
    placed = Bench(redis_client, store=PartitionedStore)
    begin(placed, hosts=2, each=1, concurrency=1)
    (one,) = settle(placed)
    waiting = "h1" if one.host == "h0" else "h0"
    unseen = f"host {waiting} has requests and free slots but no claim can see it"
    placed.redis.zrem(placed.key("WAITING", ONE), waiting)
    assert unseen in placed.frontier.audit()
    placed.redis.zadd(placed.key("HOSTS"), {waiting: 0})
    assert placed.frontier.audit() == []
    placed.redis.hset(placed.key("TASK", 1), "pin", "7")
    placed.redis.zrem(placed.key("HOSTS"), waiting)
    assert unseen in placed.frontier.audit()
    placed.redis.zadd(placed.key("APART", 7), {waiting: 0})
    assert placed.frontier.audit() == []


def test_a_dead_generation_that_lists_nothing_has_nothing_to_give_back(broken: Broken) -> None:
    broken.redis.sadd(broken.key("FENCED"), 1)
    broken.redis.zrem(broken.key("GENERATIONS"), 1)
    broken.redis.delete(broken.key("INPROGRESS", 1))
    assert not [problem for problem in broken.frontier.audit() if "declared dead" in problem]
