"""Affinity: the node of a host, its moves, and the effect on claims."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import msgpack
import pytest
from redis import Redis

from crawlframe.frontier.client import scripts
from crawlframe.frontier.client.partitions import PartitionedStore
from crawlframe.frontier.cluster.affinity import (
    DOMAIN,
    SLOTS,
    TOLERANCE,
    Affinity,
    NodeLoad,
    Table,
    assign,
    rebalance,
    slot_of,
)
from crawlframe.request.request import Admission
from tests.frontier.bench import Bench

NAMES = ("alpha", "beta", "gamma", "delta", "epsilon")
HOSTS = [f"host{n:03}.example" for n in range(200)]  # in the order of hosts due at one time


def moved(before: list[str], after: list[str]) -> Counter[tuple[str, str]]:
    return Counter(pair for pair in zip(before, after, strict=True) if pair[0] != pair[1])


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_each_node_has_its_share(n: int) -> None:
    counts = Counter(assign([], NAMES[:n]))
    assert sum(counts.values()) == SLOTS
    assert counts.keys() == {*NAMES[:n]}
    assert all(count == pytest.approx(SLOTS / n, rel=0.1) for count in counts.values())


def test_a_node_that_joins_gets_its_share_and_nothing_else_moves() -> None:
    before = assign([], NAMES[:4])
    after = assign(before, NAMES)
    moves = moved(before, after)
    assert {taker for _, taker in moves} == {"epsilon"}
    assert {giver for giver, _ in moves} == {*NAMES[:4]}
    assert after == assign([], NAMES)


def test_of_a_node_that_leaves_only_its_own_moves_and_comes_back() -> None:
    before = assign([], NAMES)
    after = assign(before, NAMES[:4])
    moves = moved(before, after)
    assert {giver for giver, _ in moves} == {"epsilon"}
    assert {taker for _, taker in moves} == {*NAMES[:4]}
    assert assign(after, NAMES) == before


def test_every_node_computes_the_same() -> None:
    assert assign([], NAMES) == assign([], [*reversed(NAMES)])


def test_nothing_moves_without_a_reason() -> None:
    before = assign([], NAMES)
    assert assign(before, NAMES) == before
    even = {name: NodeLoad(100.0, {}) for name in NAMES}
    assert rebalance(before, even) == before


def test_the_busiest_slots_move_to_the_node_with_the_least() -> None:
    before = assign([], NAMES[:2])
    mine = [slot for slot in range(SLOTS) if before[slot] == "alpha"]
    loads = {"alpha": NodeLoad(60.0, dict.fromkeys(mine[:6], 10.0)), "beta": NodeLoad(20.0, {})}
    after = rebalance(before, loads)
    # alpha: 60 and 6 slots of 10; beta: 20; and each half of the 20 that no slot is named for
    assert moved(before, after) == {("alpha", "beta"): 5}


def test_one_large_host_belongs_to_one_node_after_the_other() -> None:
    """Its requests go to the node that has it; over time both have the same."""
    slots, done, averages = assign([], NAMES[:2]), Counter[str](), dict.fromkeys(NAMES[:2], 0.0)
    holders = []
    for _ in range(200):
        holder = slots[7]
        holders.append(holder)
        done[holder] += 100
        for name in averages:
            averages[name] = 0.93 * averages[name] + 7 * (name == holder)
        loads = {name: NodeLoad(load, {}) for name, load in averages.items()}
        loads[holder] = NodeLoad(averages[holder], {7: 100.0})
        slots = rebalance(slots, loads)
    assert abs(done["alpha"] - done["beta"]) <= 0.1 * sum(done.values())
    assert sum(one != other for one, other in pairwise(holders)) <= 200 / 5


def test_a_load_within_the_tolerance_stays() -> None:
    before = assign([], NAMES[:2])
    mine = before.index("alpha")
    high = 100.0 * (1 + TOLERANCE / 2)
    loads = {"alpha": NodeLoad(high, {mine: 5.0}), "beta": NodeLoad(100.0, {})}
    assert rebalance(before, loads) == before


# -- in Redis --------------------------------------------------------------------------------------


class Fleet:
    """Generations 1 and 2 are the nodes alpha and beta, which take part."""

    def __init__(self, bench: Bench, mode: str = "host") -> None:
        self.bench, self.mode = bench, mode
        self.affinity = Affinity(bench.store)
        self.set(assign([], NAMES[:2]))

    def set(self, slots: list[str], generations: tuple[int, ...] = (1, 2)) -> None:
        names = tuple(sorted({*slots}))
        self.slots = slots
        places = tuple(names.index(name) for name in slots)
        self.affinity.write(Table(self.mode, generations, names, places))

    def owner(self, host: str) -> int:
        return 1 + NAMES.index(self.slots[slot_of(host, self.mode)])

    def claim(self, generation: int, n: int = 50, *, prefers: bool = True) -> list[str]:
        bench = self.bench
        bench.sequences[generation] += 1
        claim = bench.frontier.claim(generation, bench.sequences[generation], n, (), None, prefers)
        bench.wait = claim.wait
        self.claimed = claim.requests
        return [request.host for request in claim.requests]

    def some_of(self, generation: int, n: int) -> list[str]:
        return [host for host in HOSTS if self.owner(host) == generation][:n]


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts are left to a node for hours, so that a busy machine makes no test fail."""
    source = scripts.source

    def slow(verb: str) -> str:
        text = source(verb)
        for name in ("RESERVED", "STARVED_FOR") if verb == "claim" else ():
            assert text.count(f"local {name} = 250 ") == 1
            text = text.replace(f"local {name} = 250 ", f"local {name} = 36000000 ")
        return text

    monkeypatch.setattr(scripts, "source", slow)


@pytest.fixture
def bench(patient: None, make_bench: Callable[..., Bench]) -> Bench:
    return make_bench()


@pytest.fixture
def fleet(bench: Bench) -> Fleet:
    return Fleet(bench)


def one_of_each(bench: Bench, hosts: list[str]) -> list[Admission]:
    return [bench.request(host, host) for host in hosts]


def test_a_table_is_read_as_it_was_written(fleet: Fleet) -> None:
    table = fleet.affinity.read()
    assert table is not None
    assert (table.mode, table.generations, table.nodes) == ("host", (1, 2), ("alpha", "beta"))
    assert [table.nodes[place] for place in table.slots] == fleet.slots
    assert table.share_of(1) == fleet.slots.count("alpha") / SLOTS
    assert table.share_of(3) == 0.0


@pytest.mark.parametrize("row", [b"", b"x", b"\x90", b"\x94\xa4host\x91\xa11\xa0\x90"])
def test_a_table_that_cannot_be_read_is_none(bench: Bench, fleet: Fleet, row: bytes) -> None:
    bench.redis.set(bench.key("AFFINITY"), row)
    assert fleet.affinity.read() is None
    bench.open(*one_of_each(bench, HOSTS[:4]))
    assert fleet.claim(1) == HOSTS[:4]


def damaged_rows() -> list[bytes]:
    rows: list[list[object]] = [
        ["host", [1, 2], bytes(2 * SLOTS), ["alpha", "beta"]],  # numbers
        ["host", [float("nan"), "1"], bytes(2 * SLOTS), ["alpha", "beta"]],
        ["host", [float("inf"), "1"], bytes(2 * SLOTS), ["alpha", "beta"]],
        ["host", [["1"], "1"], bytes(2 * SLOTS), ["alpha", "beta"]],
        ["host", ["1", "2"], bytes(7), ["alpha", "beta"]],
        ["host", ["1", "2"], b"\xff" * 2 * SLOTS, ["alpha", "beta"]],
        ["host", ["1", "2"], 7, "alpha"],
        ["domain", {"1": "2"}, bytes(2 * SLOTS), {}],
    ]
    return [msgpack.packb(row) for row in rows]


@pytest.mark.parametrize("row", damaged_rows())
def test_a_damaged_table_stops_nothing(bench: Bench, fleet: Fleet, row: bytes) -> None:
    bench.redis.set(bench.key("AFFINITY"), row)
    fleet.affinity.read()
    bench.open(*one_of_each(bench, HOSTS[:4]))
    assert sorted(fleet.claim(1) + fleet.claim(2)) == HOSTS[:4]


def test_keys_of_another_type_are_replaced(bench: Bench) -> None:
    fleet = Fleet(bench, DOMAIN)
    for name in ("AFFINITY", "DOMAINS"):
        bench.redis.delete(bench.key(name))
        bench.redis.rpush(bench.key(name), "damage")
        bench.open(*one_of_each(bench, HOSTS[:2]), task=len(name))
        assert fleet.claim(1, 2) == HOSTS[:2]
        bench.complete_all(fleet.claimed)
        if name == "AFFINITY":
            assert fleet.affinity.read() is None
        fleet.set(fleet.slots)
        assert bench.redis.type(bench.key(name)) != b"list"
    bench.redis.rpush(bench.key("LOADS"), "damage")
    fleet.affinity.report(1, NodeLoad(12.5, {7: 3.5}))
    assert fleet.affinity.loads([1]) == {1: NodeLoad(12.5, {7: 3.5})}


@pytest.mark.parametrize(
    "row",
    [
        [float("nan"), []], [float("inf"), []], [1.0, [7, float("nan")]], [1.0, [float("inf"), 1]],
        [-1.0, []], [1.0, [7]], [1.0, {7: 1.0}], [1.0, [SLOTS, 1.0]], 7,
    ],
)  # fmt: skip
def test_a_damaged_load_is_deleted(bench: Bench, fleet: Fleet, row: object) -> None:
    fleet.affinity.report(2, NodeLoad(1.0, {}))
    bench.redis.hset(bench.key("LOADS"), "1", msgpack.packb(row))
    bench.redis.hset(bench.key("LOADS"), "9" * 5000, b"")
    assert fleet.affinity.loads([1, 2]) == {2: NodeLoad(1.0, {})}
    assert bench.redis.hkeys(bench.key("LOADS")) == [b"2"]


def test_what_nodes_report_is_read_back(bench: Bench, fleet: Fleet) -> None:
    fleet.affinity.report(1, NodeLoad(12.5, {7: 3.5}))
    fleet.affinity.report(9, NodeLoad(1.0, {}))
    bench.redis.hset(bench.key("LOADS"), "2", b"damage")
    assert fleet.affinity.loads([1, 2]) == {1: NodeLoad(12.5, {7: 3.5})}
    assert bench.redis.hkeys(bench.key("LOADS")) == [b"1"]


def test_own_hosts_are_taken_first(bench: Bench, fleet: Fleet) -> None:
    mine, theirs = fleet.some_of(1, 5), fleet.some_of(2, 5)
    bench.open(*one_of_each(bench, [*theirs, *mine]))
    assert fleet.claim(1, 5) == mine
    assert fleet.claim(2, 5) == theirs


def test_a_node_that_asks_for_more_gets_its_hosts(bench: Bench, fleet: Fleet) -> None:
    """Meanwhile the other node neither takes them nor asks again at once."""
    bench.open()
    (theirs,) = fleet.some_of(2, 1)
    bench.open(bench.request("later", HOSTS[0], delay=3_600_000), task=2)
    assert fleet.claim(2) == []
    bench.frontier.admit(1, [bench.request("one", theirs)])
    assert fleet.claim(1) == []
    assert bench.wait > 0
    assert fleet.claim(2) == [theirs]


def test_others_help_when_it_does_not_come(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench()
    fleet = Fleet(bench)
    bench.open()
    (theirs,) = fleet.some_of(2, 1)
    bench.open(bench.request("later", HOSTS[0], delay=3_600_000), task=2)
    asked = bench.now()
    fleet.claim(2)
    bench.frontier.admit(1, [bench.request("one", theirs)])
    while not (got := fleet.claim(1)):
        assert 0 < bench.wait <= 250
        time.sleep(bench.wait / 1000)
    assert got == [theirs]
    assert bench.now() >= asked + 250


@pytest.mark.parametrize("why", ["busy", "dead", "silent", "old"])
def test_hosts_of_a_node_that_does_not_ask_are_taken_at_once(
    bench: Bench, fleet: Fleet, why: str
) -> None:
    theirs = fleet.some_of(2, 3)
    bench.open(*one_of_each(bench, theirs))
    if why == "busy":  # its wish was met
        assert fleet.claim(2, 1) == theirs[:1]
        del theirs[0]
    elif why == "dead":
        bench.redis.zadd(bench.key("STARVED"), {"2": bench.now()})
        assert fleet.claim(1) == []
        bench.leases.replay(2)
    elif why == "old":  # it runs a release that knows no affinity
        fleet.set(assign([], ["alpha"]), (1,))
    assert fleet.claim(1) == theirs


def test_with_a_node_left_what_is_due_longer_comes_first(bench: Bench, fleet: Fleet) -> None:
    """No host waits for long because another node has hosts of its own."""
    mine, theirs = fleet.some_of(1, 3), fleet.some_of(2, 2)
    bench.open(*one_of_each(bench, [*theirs, *mine]))
    bench.redis.zadd(bench.key("HOSTS"), {theirs[1]: bench.now() - 5000})
    assert fleet.claim(1, 3) == [theirs[1], *mine[:2]]


@pytest.mark.parametrize("prefers", [True, False])
def test_a_node_that_is_not_in_the_table_takes_everything(
    bench: Bench, fleet: Fleet, prefers: bool
) -> None:
    bench.open()
    bench.open(bench.request("later", HOSTS[0], delay=3_600_000), task=2)
    fleet.claim(1), fleet.claim(2)
    bench.frontier.admit(1, one_of_each(bench, HOSTS[:8]))
    assert fleet.claim(3, prefers=prefers) == HOSTS[:8]


def test_without_affinity_a_node_takes_everything(bench: Bench, fleet: Fleet) -> None:
    bench.open()
    bench.open(bench.request("later", HOSTS[0], delay=3_600_000), task=2)
    fleet.claim(2)
    bench.frontier.admit(1, one_of_each(bench, HOSTS[:8]))
    assert fleet.claim(1, prefers=False) == HOSTS[:8]


def test_nothing_is_left_to_a_node_that_does_not_take_it(bench: Bench, fleet: Fleet) -> None:
    """Without affinity, a generation that holds many leaves one to another that has none."""
    mine = fleet.some_of(1, 1)
    bench.open(*bench.requests(20, mine[0]), concurrency=8)
    assert len(fleet.claim(1)) == 8
    held = fleet.claimed
    assert fleet.claim(2) == []
    for _ in range(4):
        bench.complete(held.pop())
        assert fleet.claim(1) == mine
        assert bench.wait != 20


def test_to_a_node_without_affinity_one_is_left(bench: Bench, fleet: Fleet) -> None:
    mine = fleet.some_of(1, 1)
    bench.open(*bench.requests(20, mine[0]), concurrency=8)
    assert len(fleet.claim(1)) == 8
    held = fleet.claimed
    assert fleet.claim(3, prefers=False) == []
    bench.complete(held.pop())
    assert fleet.claim(1) == []
    assert fleet.claim(3, prefers=False) == mine


def test_the_host_of_a_place_decides(bench: Bench, fleet: Fleet) -> None:
    mine, theirs = fleet.some_of(1, 1)[0], fleet.some_of(2, 1)[0]
    places = [f"{theirs}|http://proxy.example:1", f"{mine}|http://proxy.example:1"]
    bench.open(*one_of_each(bench, places))
    assert fleet.claim(1, 1) == places[1:]


def test_what_is_no_host_is_taken_by_anybody(bench: Bench, fleet: Fleet) -> None:
    bench.open()
    bench.open(bench.request("later", HOSTS[0], delay=3_600_000), task=2)
    fleet.claim(1), fleet.claim(2)
    bench.frontier.admit(1, one_of_each(bench, [f"/{n}/root" for n in range(8)]))
    assert len(fleet.claim(1)) == 8


def test_a_host_with_a_delay_is_claimed_when_it_is_due(bench: Bench, fleet: Fleet) -> None:
    (mine,) = fleet.some_of(1, 1)
    bench.open(*bench.requests(3, mine), delay=2000)
    assert fleet.claim(1) == [mine]
    bench.report_sent(*fleet.claimed)
    assert fleet.claim(2) == []
    assert fleet.claim(1) == []
    assert 0 < bench.wait <= 1950  # 50 ms ahead
    time.sleep(bench.wait / 1000)
    assert fleet.claim(2) == []
    assert fleet.claim(1) == [mine]


def test_more_due_hosts_than_are_looked_at(bench: Bench, fleet: Fleet) -> None:
    """A node that found no host of its own looks again soon, and takes the rest."""
    theirs, mine = fleet.some_of(2, 40), fleet.some_of(1, 1)
    bench.open()
    bench.open(bench.request("later", HOSTS[0], delay=3_600_000), task=2)
    fleet.claim(2)
    bench.frontier.admit(1, one_of_each(bench, theirs))
    time.sleep(0.002)
    bench.frontier.admit(1, one_of_each(bench, mine))
    assert fleet.claim(1, 1) == []
    assert 0 < bench.wait <= 20
    assert fleet.claim(1, 40) == mine


def test_every_request_is_claimed_once(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(partitions=3, store=PartitionedStore)
    fleet = Fleet(bench)
    bench.open(*(one for host in HOSTS for one in bench.requests(3, host)), concurrency=1)
    found: Counter[bytes] = Counter()
    mine = 0
    while sum(found.values()) < 3 * len(HOSTS):
        for generation in (1, 2):
            for request in [fleet.claim(generation, 16), fleet.claimed][1]:
                found[request.rid] += 1
                mine += fleet.owner(request.host) == generation
                bench.complete(request)
    assert {*found.values()} == {1}
    assert mine > 0.8 * sum(found.values())
    assert bench.places() == (0, 0, 0, 0)


DOMAINS = [
    ("www.shop.co.uk", "shop.co.uk"), ("shop.co.uk", "shop.co.uk"), ("co.uk", "co.uk"),
    ("a.b.example.com", "example.com"), ("example.com", "example.com"), ("com", "com"),
    ("a.b.c.ck", "b.c.ck"), ("b.c.ck", "b.c.ck"), ("c.ck", "c.ck"), ("ck", "ck"),
    ("a.www.ck", "www.ck"), ("www.ck", "www.ck"), ("a.b.kobe.jp", "a.b.kobe.jp"),
    ("a.city.kobe.jp", "city.kobe.jp"), ("me.github.io", "me.github.io"),
    ("x.me.github.io", "me.github.io"), ("localhost", "localhost"), ("127.0.0.1", "127.0.0.1"),
    ("[::1]", "[::1]"), ("a.xn--55qx5d.cn", "a.xn--55qx5d.cn"), ("a.unlisted", "a.unlisted"),
    ("b.a.unlisted", "a.unlisted"), ("s3.amazonaws.com", "s3.amazonaws.com"),
    (f"{'a.' * 120}shop.co.uk", "shop.co.uk"), (f"{'a.' * 130}uk", f"{'a.' * 130}uk"),
    ("www.example.com.", "example.com"),
    ("x.s3-accesspoint.dualstack.cn-northwest-1.amazonaws.com.cn",
     "x.s3-accesspoint.dualstack.cn-northwest-1.amazonaws.com.cn"),
    ("y.x.s3-accesspoint.dualstack.cn-northwest-1.amazonaws.com.cn",
     "x.s3-accesspoint.dualstack.cn-northwest-1.amazonaws.com.cn"),
]  # fmt: skip


def test_claim_finds_the_domain_of_a_host(patient: None, make_bench: Callable[..., Bench]) -> None:
    """The slot of the domain is the only one of the node that asks."""
    bench = make_bench(store=PartitionedStore)  # thousands of rules would be compared twice a call
    fleet = Fleet(bench, DOMAIN)
    bench.open(bench.request("other", "other.example"))
    bench.redis.zadd(bench.key("STARVED"), {"2": bench.now()})
    for host, domain in DOMAINS:
        slot = slot_of(host, DOMAIN)
        assert slot == slot_of(f"{host}:8080", DOMAIN) == slot_of(domain, "host")
        fleet.set(["alpha" if n == slot else "beta" for n in range(SLOTS)])
        bench.frontier.admit(1, one_of_each(bench, [host, f"{host}:8080"]))
        assert sorted(fleet.claim(1)) == [host, f"{host}:8080"]


@pytest.mark.parametrize(("labels", "count"), [(9000, 1), (120, 200), (300_000, 1)])
def test_a_name_with_many_labels_stops_nothing(bench: Bench, labels: int, count: int) -> None:
    """Each page may link to such a host."""
    fleet = Fleet(bench, DOMAIN)
    hosts = [f"{'a.' * labels}h{n}.example" for n in range(count)]
    bench.open(*one_of_each(bench, [*hosts, "good.example"]))
    assert len(fleet.claim(1, 300) + fleet.claim(2, 300)) == count + 1


def test_rules_that_were_written_in_part_are_written_again(bench: Bench) -> None:
    fleet = Fleet(bench, DOMAIN)
    bench.redis.hdel(bench.key("DOMAINS"), "co.uk")
    fleet.set(fleet.slots)
    assert bench.redis.hget(bench.key("DOMAINS"), "co.uk") == b"0"


def test_the_rules_are_written_once(bench: Bench) -> None:
    fleet = Fleet(bench, DOMAIN)
    assert bench.redis.hget(bench.key("DOMAINS"), "co.uk") == b"0"
    bench.redis.hset(bench.key("DOMAINS"), "co.uk", "7")
    fleet.set(fleet.slots)
    assert bench.redis.hget(bench.key("DOMAINS"), "co.uk") == b"7"
    assert not Redis.exists(bench.redis, bench.key("DOMAINS", partition=0) + "x")


def test_hosts_do_not_need_them(bench: Bench, fleet: Fleet) -> None:
    assert not bench.redis.exists(bench.key("DOMAINS"))
