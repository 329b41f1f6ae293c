"""Rollouts: which nodes get which announcement, also nodes that start later."""

from __future__ import annotations

import pytest
from redis import Redis

from crawlframe.frontier.client.partitions import PartitionedStore
from crawlframe.frontier.cluster.rollouts import Rollout, Rollouts, branch_of, concerns

OLD, NEW, NEWER = "1" * 40, "2" * 40, "3" * 40


@pytest.fixture
def store(redis_client: Redis) -> PartitionedStore:
    return PartitionedStore(redis_client)


@pytest.fixture
def rollouts(store: PartitionedStore) -> Rollouts:
    return Rollouts(store)


def test_nothing_was_announced(rollouts: Rollouts) -> None:
    assert rollouts.current() is None
    assert rollouts.of("alpha") is None


def test_an_announcement_is_read_as_it_was_made(
    rollouts: Rollouts, store: PartitionedStore
) -> None:
    told = rollouts.announce(Rollout(NEW, "main", ("alpha",), back=True, before=OLD))
    seconds, _ = store.redis.time()
    assert abs(told.announced_at - seconds) < 60
    assert rollouts.current() == rollouts.of("alpha") == told
    assert (told.revision, told.branch, told.nodes) == (NEW, "main", ("alpha",))
    assert (told.back, told.before) == (True, OLD)


def test_the_newest_counts(rollouts: Rollouts) -> None:
    ids = [rollouts.announce(Rollout(NEW, "main")).id for _ in range(20)]
    assert ids == sorted(set(ids))
    newest = rollouts.of("alpha")
    assert newest is not None
    assert newest.id == ids[-1]


def test_a_late_node_finds_the_announcement_before_a_canary(
    rollouts: Rollouts, store: PartitionedStore
) -> None:
    everyone = rollouts.announce(Rollout(OLD, "main"))
    canary = rollouts.announce(Rollout(NEW, "main", ("alpha",)))
    assert rollouts.current() == canary
    assert rollouts.of("alpha") == canary
    assert rollouts.of("beta") == everyone
    rest = rollouts.announce(Rollout(NEW, "main"))
    assert rollouts.of("alpha") == rollouts.of("beta") == rest
    assert store.redis.hlen(store.keys[0]("ROLLOUT")) == 1  # it does not grow


def test_branches_do_not_meet(rollouts: Rollouts) -> None:
    main = rollouts.announce(Rollout(OLD, "main"))
    named = rollouts.announce(Rollout(OLD, "main", ("alpha",)))
    test = rollouts.announce(Rollout(NEW, "mai"))
    assert rollouts.of("alpha", "main") == named
    assert rollouts.of("beta", "main") == main
    assert rollouts.of("beta", "mai") == rollouts.of("beta") == test


def test_ids_grow_when_the_clock_of_redis_goes_back(
    rollouts: Rollouts, store: PartitionedStore
) -> None:
    future = 5 * 10**15
    store.redis.hset(store.keys[0]("ROLLOUT"), "main:", f"{future}|{{}}")
    assert rollouts.announce(Rollout(NEW, "main")).id == future + 1


@pytest.mark.parametrize("row", [b"", b"1|", b"x|{}", b"1|{}", b"1|[]", b'1|{"revision": 1}'])
def test_what_cannot_be_read_is_no_announcement(
    rollouts: Rollouts, store: PartitionedStore, row: bytes
) -> None:
    key = store.keys[0]("ROLLOUT")
    store.redis.hset(key, "main:", row)
    assert rollouts.current() is None
    told = rollouts.announce(Rollout(NEW, "main", ("alpha",)))
    assert rollouts.of("alpha") == told


def test_fields_of_a_later_release_do_no_harm(rollouts: Rollouts, store: PartitionedStore) -> None:
    text = f'1|{{"revision": "{NEW}", "branch": "main", "later": 1}}'
    store.redis.hset(store.keys[0]("ROLLOUT"), "main:", text)
    assert rollouts.of("alpha") == Rollout(NEW, "main", id=1)


@pytest.mark.parametrize(
    ("rollout", "expected"),
    [
        (None, False),
        (Rollout(NEW, "main", id=2), True),
        (Rollout(NEW, "main", id=1), False),
        (Rollout(NEW, "other", id=2), False),
        (Rollout(NEW, "main", ("beta", "alpha"), id=2), True),
        (Rollout(NEW, "main", ("beta",), id=2), False),
    ],
)
def test_nodes_that_a_rollout_concerns(rollout: Rollout | None, expected: bool) -> None:
    assert concerns(rollout, "alpha", "main", 1) is expected


def test_the_branch_without_its_remote() -> None:
    assert [branch_of(name) for name in ("origin/main", "up/feature/x", "")] == [
        "main",
        "feature/x",
        "",
    ]
