"""known, and the fingerprints behind it: exact, and 8 bytes each as long as buckets stay small."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest

from crawlframe.frontier import Frontier
from crawlframe.frontier.client.partitions import PartitionedStore, pack
from crawlframe.frontier.client.records import fingerprints
from crawlframe.request.request import Admission
from tests.frontier.bench import Bench

MANY = 20_000


def admission(i: int, host: str = "a.example") -> Admission:
    return Admission(hashlib.blake2b(b"%d" % i, digest_size=16).digest(), 5, host, 0, b"r")


def test_known_answers_each_in_its_place(bench: Bench) -> None:
    old = [bench.request("a"), bench.request("b", "b.example"), bench.request("c", "c.example")]
    new = [bench.request("d"), bench.request("e", "b.example")]
    bench.open(*old)
    bench.open(bench.request("f", task=2), task=2)
    asked = [
        (1, [old[0], new[0], old[1]]),
        (2, [bench.request("f", task=2), old[0]]),
        (3, [old[0]]),
        (1, []),
        (1, [new[1], old[2]]),
    ]
    assert bench.frontier.known(asked) == [
        [True, False, True],
        [True, False],
        [False],
        [],
        [False, True],
    ]
    assert bench.frontier.known([]) == []


def test_known_over_partitions_and_calls(make_bench: Callable[..., Bench]) -> None:
    for partitions in (1, 3):
        bench = make_bench(partitions=partitions, store=PartitionedStore)
        bench.redis.flushall()
        bench.open()
        admissions = [admission(i, f"h{i % 11}.example") for i in range(7000)]
        bench.frontier.admit(1, [a for i, a in enumerate(admissions) if i % 3])
        groups = [(1, admissions[:2500]), (1, admissions[2500:2501]), (1, admissions[2501:])]
        answers = [mark for group in bench.frontier.known(groups) for mark in group]
        assert answers == [bool(i % 3) for i in range(7000)]


def test_what_has_ended_stays_known(bench: Bench) -> None:
    bench.open(bench.request("a"), bench.request("b"))
    bench.complete(bench.claim()[0])
    assert bench.frontier.known([(1, [bench.request("a")])]) == [[True]]


def test_edges_of_the_fingerprint(bench: Bench) -> None:
    """64 bits, signed: the buckets are chosen by their decimal digits."""
    firsts = [0, 1, -1, 9, -9, 999_999_999, -999_999_999, 10**9, -(10**9), 2**63 - 1, -(2**63)]
    rids = [n.to_bytes(8, "big", signed=True) + b"\0" * 8 for n in firsts]
    admissions = [Admission(rid, 5, "a.example", 0, b"r") for rid in rids]
    texts, hashes = fingerprints(rids)
    assert texts == [str(n) for n in firsts]
    assert hashes == [int(text[-9:].replace("-", "")) for text in texts]
    bench.open()
    assert bench.frontier.admit(1, admissions) == len(firsts)
    assert bench.frontier.admit(1, admissions) == 0
    assert bench.frontier.known([(1, admissions)]) == [[True] * len(firsts)]


@pytest.mark.parametrize("step", [1, 2])
def test_short_fingerprints_are_found_after_a_split(bench: Bench, step: int) -> None:
    """Of few digits, with and without a sign; even ones alone all stay where they are."""
    numbers = range(-500 * step, 501 * step, step)
    rids = [n.to_bytes(8, "big", signed=True) + b"\0" * 8 for n in numbers]
    admissions = [Admission(rid, 5, "a.example", 0, b"r") for rid in rids]
    bench.open()
    assert bench.frontier.admit(1, admissions) == len(numbers)
    assert int(bench.redis.hget(bench.key("TASK", 1), "level")) >= 2
    assert bench.frontier.known([(1, admissions)]) == [[True] * len(numbers)]
    assert bench.frontier.admit(1, admissions) == 0


def test_very_many_fingerprints(redis_client: Any) -> None:
    """They are found again, no other is, and Redis keeps all of them as integer sets."""
    frontier = Frontier(PartitionedStore(redis_client))
    bench = Bench(redis_client, store=PartitionedStore)
    bench.open()
    admissions = [admission(i) for i in range(MANY + 2000)]
    inside, outside = admissions[:MANY], admissions[MANY:]
    for i in range(0, MANY, 500):
        assert frontier.admit(1, inside[i : i + 500]) == 500
    # Nothing but the fingerprints is wanted here.
    redis_client.delete(bench.key("REQ"), *redis_client.keys("*q:*"), *redis_client.keys("*l:*"))

    keys = redis_client.keys(bench.key("SEEN", "1:*"))
    pipe = redis_client.pipeline(transaction=False)
    for key in keys:
        pipe.object("encoding", key)
        pipe.scard(key)
        pipe.memory_usage(key, samples=0)
    answers = pipe.execute()
    assert {*answers[::3]} == {b"intset"}
    assert max(answers[1::3]) <= 512
    assert sum(answers[1::3]) == MANY
    assert 200 < MANY / len(keys) < 250  # full on average, with room for the fullest
    assert sum(answers[2::3]) / MANY < 10  # bytes per entry, keys included

    assert frontier.known([(1, inside)]) == [[True] * MANY]
    assert frontier.known([(1, outside)]) == [[False] * len(outside)]
    for i in range(0, MANY, 5000):
        assert frontier.admit(1, inside[i : i + 500]) == 0

    table = redis_client.hmget(bench.key("TASK", 1), "level", "split", "seen")
    level, split, seen = map(int, table)
    assert (2**level + split, seen) == (len(keys), MANY)
    redis_client.hset(bench.key("TASK", 1), "na", 0)
    frontier.close_tasks([1])
    assert not redis_client.keys(bench.key("SEEN", "*"))


def test_while_buckets_split_nothing_is_lost(bench: Bench) -> None:
    bench.open()
    plain = Frontier(PartitionedStore(bench.redis))
    done: list[Admission] = []
    for start in range(0, 3000, 300):
        some = [admission(i) for i in range(start, start + 300)]
        assert plain.admit(1, some) == 300
        done += some
        assert plain.known([(1, done)]) == [[True] * len(done)]
        assert plain.admit(1, done[-300:]) == 0
    assert int(bench.redis.hget(bench.key("TASK", 1), "level")) >= 3


def test_known_writes_nothing(bench: Bench) -> None:
    bench.open(bench.request("a"))
    before = bench.dump()
    bench.store.run("known", 0, pack([["1", ["5"], [5]], ["7", ["5"], [5]]]))
    assert bench.dump() == before
