"""Several partitions on one server: the same guarantees, and each script in one hash slot."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from redis import Redis
from redis.crc import key_slot

from crawlframe.errors import FrontierError
from crawlframe.frontier import Frontier
from crawlframe.frontier.client.keys import KEYS, Keys, lua_prelude
from crawlframe.frontier.client.partitions import PartitionedStore
from crawlframe.frontier.client.scripts import source, verbs
from crawlframe.request.request import Admission
from tests.frontier.bench import Bench, seeds

HOSTS = [f"{c}.example" for c in "abcdefghijkl"]


@pytest.fixture
def bench(make_bench: Callable[..., Bench]) -> Bench:
    return make_bench(partitions=3)


def test_hosts_are_spread(bench: Bench) -> None:
    assert {bench.store.partition_of(host) for host in HOSTS} == {0, 1, 2}


def test_follow_ups_go_where_their_hosts_live(bench: Bench) -> None:
    bench.open(bench.request("root", "-"))
    [root] = bench.claim_all()
    assert bench.complete(root, *(bench.request(host, host) for host in HOSTS)) == set()
    for partition in range(3):
        hosts = {h.decode() for h in bench.redis.zrange(bench.key("HOSTS", "", partition), 0, -1)}
        assert hosts == {host for host in HOSTS if bench.store.partition_of(host) == partition}
    assert sorted(bench.names(bench.claim_all())) == HOSTS


def test_a_long_list_over_all_partitions(bench: Bench) -> None:
    bench.open(bench.request("root", "-"))
    [root] = bench.claim_all()
    links = [bench.request(f"link {i}", HOSTS[i % 12]) for i in range(4000)]
    assert bench.complete(root, *links) == set()
    counts = bench.counts()
    assert (counts.na, counts.nf, counts.ready, counts.duplicates) == (4001, 1, 4000, 0)
    assert bench.complete(root, *links) == set()
    assert bench.counts() == counts


@pytest.mark.parametrize("seed", seeds(2, 5))
def test_nr_reaches_0_once_and_never_early(make_bench: Callable[..., Bench], seed: int) -> None:
    """A random tree of requests over all partitions, checked after every script."""
    chance = random.Random(seed)

    class Watched(PartitionedStore):
        watching = True

        def run(self, verb: str, partition: int, *args: Any) -> Any:
            answer = super().run(verb, partition, *args)
            if self.watching:
                self.watching = False
                counts = Frontier(self).counts(1)
                if counts is not None and counts.nr == 0:
                    zeros.append(len(todo))
                self.watching = True
            return answer

    zeros: list[int] = []
    todo: list[Admission] = []
    bench = make_bench(partitions=3, store=Watched)
    root = bench.request("root", "-")
    tree: dict[bytes, list[Admission]] = {}
    todo = [root]
    nodes = [root]
    for i in range(60):
        child = bench.request(f"n{i}", chance.choice(HOSTS))
        tree.setdefault(chance.choice(nodes).rid, []).append(child)
        nodes.append(child)
    bench.open(root)
    ended = []
    done: set[bytes] = set()
    while len(done) < len(nodes):
        held = bench.claim_all(chance.randint(1, 9))
        chance.shuffle(held)
        for request in held:
            done.add(request.rid)
            todo = [node for node in nodes if node.rid not in done]
            ended.append(bench.complete(request, *tree.get(request.rid, [])))
            if chance.random() < 0.3:
                bench.complete(request, *tree.get(request.rid, []))
    assert set(zeros) == {0}
    assert ended[-1] == {1}
    assert not any(ended[:-1])
    assert (bench.counts().na, bench.counts().nf) == (61, 61)


@pytest.mark.parametrize("at", range(1, 8))
def test_a_completion_that_dies_between_partitions(
    make_bench: Callable[..., Bench], at: int
) -> None:
    class Dying(PartitionedStore):
        lives = 10**9

        def run(self, verb: str, partition: int, *args: Any) -> Any:
            self.lives -= 1
            answer = super().run(verb, partition, *args)
            if self.lives == 0:
                raise ConnectionError
            return answer

    bench = make_bench(partitions=3, store=Dying)
    bench.open(bench.request("root", "-"))
    [root] = bench.claim_all()
    links = [bench.request(f"link {i}", HOSTS[i % 12]) for i in range(2400)]
    bench.store.lives = at
    try:
        bench.complete(root, *links)
    except ConnectionError:
        bench.store.lives = 10**9
        assert bench.counts().nr > 0
        assert bench.frontier.audit() == []
        bench.complete(root, *links)
    counts = bench.counts()
    assert (counts.na, counts.nf, counts.ready) == (2401, 1, 2400)


def test_a_task_that_a_partition_lost_is_an_error_while_it_has_work(bench: Bench) -> None:
    bench.open(bench.request("root", "-"))
    [root] = bench.claim_all()
    other = (bench.store.partition_of("-") + 1) % 3
    bench.redis.delete(bench.key("TASK", 1, other), bench.key("TASKS", "", other))
    assert bench.frontier.counts(1) is None
    links = [bench.request(host, host) for host in HOSTS]
    with pytest.raises(FrontierError, match="task 1 is not known"):
        bench.complete(root, *links)
    bench.open(bench.request("root", "-"))
    bench.complete(root, *links)
    assert bench.counts()[1:3] == (13, 1)


@pytest.mark.parametrize("host", ["-", *HOSTS[:4]])
def test_a_seed_may_be_claimed_before_its_task_is_quite_open(
    make_bench: Callable[..., Bench], host: str
) -> None:
    """Another node is quick: its follow-ups find the task in every partition."""

    class Watched(PartitionedStore):
        def run(self, verb: str, partition: int, *args: Any) -> Any:
            answer = super().run(verb, partition, *args)
            if verb == "open":
                node = bench_of(self)
                for request in node.claim_all():
                    node.complete(request, *(node.request(f"to {h}", h) for h in HOSTS))
            return answer

    def bench_of(store: PartitionedStore) -> Bench:
        return Bench(store.redis, partitions=3, store=PartitionedStore)

    bench = make_bench(partitions=3, store=Watched)
    bench.open(bench.request("root", host))
    assert bench.counts()[1:3] == (13, 1)


def test_every_key_of_a_partition_is_in_its_slot(redis_client: Redis) -> None:
    for prefix in ("cf", "a:b", "with space"):
        for partition in range(4):
            keys = Keys(prefix, partition)
            names = {keys(name, "1:{x}:h") for name in KEYS}
            slots = {key_slot(key.encode()) for key in names | {keys.tag}}
            assert len(slots) == 1


def test_scripts_touch_only_declared_names() -> None:
    """Every key a verb touches is made by a name of keys.py, so it carries the partition's tag."""
    prelude = lua_prelude(" ".join(KEYS))
    for name in KEYS:
        assert f" {name} =" in prelude or f" {name}(" in prelude
    for verb in verbs():
        text = source(verb)[len(lua_prelude(source(verb))) :]
        code = "\n".join(line.split("--")[0] for line in text.splitlines())
        assert "KEYS[" not in code
        assert "redis.call" not in code.replace("local call = redis.call", "")


def test_every_verb_has_a_header() -> None:
    for verb in verbs():
        text = source(verb)
        assert f"\n-- {verb}: " in text
        assert "\n-- Returns: " in text


@pytest.mark.parametrize("partitions", [1, 3])
def test_nothing_is_in_no_partition(make_bench: Callable[..., Bench], partitions: int) -> None:
    frontier = make_bench(partitions=partitions).frontier
    assert [*frontier.store.split(iter([]), str)] == []
    assert [(n, [*some]) for n, some in frontier.store.split(iter(["-"]), str)] == [
        (frontier.store.partition_of("-"), ["-"])
    ]
