"""Affinity of a node: its reports of load, and the table kept by the oldest node."""

from __future__ import annotations

import logging

import pytest
from redis import Redis

from crawlframe.conf import Settings
from crawlframe.errors import ConfigError
from crawlframe.frontier import Claimed, NodeInfo
from crawlframe.frontier.client.partitions import PartitionedStore
from crawlframe.frontier.cluster.affinity import SLOTS, Affinity, NodeLoad, Table, slot_of
from crawlframe.node.master.affinity import KEPT_SHARE, MAX_SLOTS, NodeAffinity
from tests.frontier.bench import Bench


@pytest.fixture
def bench(redis_client: Redis) -> Bench:
    return Bench(redis_client, store=PartitionedStore, partitions=2)


def node(bench: Bench, generation: int, mode: str, *, name: str = "") -> NodeInfo:
    """A node that lives."""
    name = name or f"node{generation}"
    info = NodeInfo(generation, name, "m", "p", 1, 0.0, 1, 15.0, affinity=mode)
    bench.leases.announce(info)
    bench.leases.renew(generation, 15)
    return info


def table(bench: Bench) -> Table:
    found = Affinity(bench.store).read()
    assert found is not None
    return found


def claimed(host: str) -> Claimed:
    return Claimed(b"", 1, host, 0, 0, b"")


def test_the_load_is_an_average_over_the_last_renewals(bench: Bench) -> None:
    me, affinity = node(bench, 1, "host"), NodeAffinity("host")
    for _ in range(3):
        affinity.note([claimed("a.example")] * 10)
        affinity.tick(bench.frontier, me)
        (load,) = Affinity(bench.store).loads([1]).values()
        assert load.requests == pytest.approx(10)
        assert load.slots == {slot_of("a.example", "host"): pytest.approx(10)}
    affinity.tick(bench.frontier, me)
    (load,) = Affinity(bench.store).loads([1]).values()
    assert load.requests == pytest.approx(
        10
        * (KEPT_SHARE + KEPT_SHARE**2 + KEPT_SHARE**3)
        / (1 + KEPT_SHARE + KEPT_SHARE**2 + KEPT_SHARE**3)
    )


def test_only_the_busiest_slots_are_reported(bench: Bench) -> None:
    me, affinity = node(bench, 1, "host"), NodeAffinity("host")
    affinity.note([claimed(f"{n}.example") for n in range(1000)] + [claimed("a.example")] * 9)
    affinity.tick(bench.frontier, me)
    (load,) = Affinity(bench.store).loads([1]).values()
    assert load.requests == 1009
    assert len(load.slots) == MAX_SLOTS
    assert max(load.slots, key=load.slots.__getitem__) == slot_of("a.example", "host")


def test_a_slot_without_requests_is_forgotten(bench: Bench) -> None:
    me, affinity = node(bench, 1, "host"), NodeAffinity("host")
    affinity.note([claimed("a.example")])
    for _ in range(60):
        affinity.tick(bench.frontier, me)
    assert Affinity(bench.store).loads([1])[1].slots == {}


def test_the_oldest_node_keeps_the_table(bench: Bench) -> None:
    first, second = node(bench, 1, "host"), node(bench, 2, "host")
    NodeAffinity("host").tick(bench.frontier, second)
    assert Affinity(bench.store).read() is None
    NodeAffinity("host").tick(bench.frontier, first)
    assert (table(bench).nodes, table(bench).generations) == (("node1", "node2"), (1, 2))
    assert bench.redis.get(bench.key("AFFINITY")) == bench.redis.get(bench.key("AFFINITY", "", 1))


def test_who_is_dead_leaves_or_does_not_take_part_has_no_share(bench: Bench) -> None:
    me = node(bench, 2, "host")
    bench.leases.renew(node(bench, 1, "host").generation, -1)
    node(bench, 3, "off")
    node(bench, 4, "")  # of an older release
    leaving = NodeInfo(5, "node5", "m", "p", 1, 0.0, 1, 15.0, leaving=True, affinity="host")
    bench.leases.announce(leaving)
    bench.leases.renew(5, 15)
    NodeAffinity("host").tick(bench.frontier, me)
    assert table(bench).generations == (2,)


def test_the_next_life_of_a_node_has_the_slots_of_the_last_one(bench: Bench) -> None:
    first = node(bench, 1, "host")
    node(bench, 2, "host", name="other")
    affinity = NodeAffinity("host")
    affinity.tick(bench.frontier, first)
    before = table(bench)
    node(bench, 3, "host", name="other")  # during a hand-over, both live
    affinity.tick(bench.frontier, first)
    assert table(bench) == before._replace(generations=(1, 3))


def test_busy_slots_move_when_every_node_has_reported(bench: Bench) -> None:
    first = node(bench, 1, "host")
    node(bench, 2, "host")
    affinity, kept = NodeAffinity("host"), Affinity(bench.store)
    affinity.tick(bench.frontier, first)
    before = table(bench)
    hosts = [f"{n}.example" for n in range(100)]
    mine = [host for host in hosts if before.nodes[before.slots[slot_of(host, "host")]] == "node1"]
    affinity.note([claimed(host) for host in mine for _ in range(20)])
    affinity.tick(bench.frontier, first)
    assert table(bench) == before
    kept.report(2, NodeLoad(0.0, {}))
    affinity.tick(bench.frontier, first)
    moved = sum(map(int.__ne__, table(bench).slots, before.slots))
    assert 10 < moved < 100


def test_without_affinity_nothing_is_written(bench: Bench) -> None:
    me, affinity = node(bench, 1, "off"), NodeAffinity()
    affinity.note([claimed("a.example")])
    affinity.tick(bench.frontier, me)
    assert not bench.redis.exists(bench.key("LOADS"), bench.key("AFFINITY"))


def test_a_node_that_hashes_differently_says_so_once(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = node(bench, 1, "host"), node(bench, 2, "domain")
    affinity = NodeAffinity("domain")
    with caplog.at_level(logging.WARNING):
        affinity.tick(bench.frontier, second)
        affinity.tick(bench.frontier, second)
    assert len(caplog.messages) == 1
    assert "CRAWLFRAME_AFFINITY is domain here and host on node node1" in caplog.text
    NodeAffinity("host").tick(bench.frontier, first)
    assert table(bench).generations == (1,)


def test_slots_are_known_to_redis() -> None:
    assert {slot_of(f"{n}.example", "host") for n in range(100_000)} == {*range(SLOTS)}


@pytest.mark.parametrize("value", ["hosts", "", "HOST", "1"])
def test_a_bad_value_names_the_choices(value: str) -> None:
    with pytest.raises(ConfigError, match=r"AFFINITY='.*' must be off or host or domain"):
        Settings.from_env({"CRAWLFRAME_AFFINITY": value})
