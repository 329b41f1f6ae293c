"""retake: parked requests come back to code that has not tried them, and to no other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from crawlframe.conf import Settings
from crawlframe.frontier import Claimed
from crawlframe.frontier.client.partitions import PartitionedStore
from crawlframe.frontier.tasks import mark_of
from crawlframe.node.worker.commit.committer import Committer
from crawlframe.node.worker.run_request import outcome_of
from crawlframe.run.link_filters import Sieve
from crawlframe.run.outcome import Verdict
from crawlframe.run.participant import Participants
from crawlservice.ledger.store import DjangoLedger
from tests.conftest import NewDatabase, django_on
from tests.frontier.bench import Bench


def park_all(bench: Bench, version: str) -> list[Claimed]:
    held = bench.claim_all()
    bench.park(*held, version=version)
    return held


def tried_lists(bench: Bench, partition: int = 0) -> set[bytes]:
    return set(bench.redis.smembers(bench.key("TRIED_VERSIONS", "", partition)))


def tried(*versions: str) -> bytes:
    return ".".join(map(mark_of, versions)).encode()


# -- rights to take -------------------------------------------------------------------------------


def test_who_finds_nothing_writes_nothing(bench: Bench) -> None:
    bench.open(*bench.requests(3))
    park_all(bench, "old")
    assert bench.frontier.retake("old", 500) == 0
    assert not bench.redis.keys("*retaken*")


def test_other_code_takes_back_what_some_code_could_not_run(bench: Bench) -> None:
    bench.open(*bench.requests(3))
    park_all(bench, "old")
    assert bench.claim() == []
    assert bench.frontier.retake("old", 500) == 0
    assert bench.places() == (0, 0, 0, 3)
    assert bench.frontier.retake("new", 500) == 3
    assert bench.places() == (3, 0, 0, 0)
    assert bench.frontier.parked(1) == {}
    assert len(bench.claim()) == 3


def test_two_versions_do_not_play_ping_pong(bench: Bench) -> None:
    bench.open(bench.request("one"))
    park_all(bench, "a")
    assert bench.frontier.retake("b", 500) == 1
    park_all(bench, "b")
    assert tried_lists(bench) == {tried("a", "b")}
    before = bench.dump()
    for version in ("a", "b", "a"):
        assert bench.frontier.retake(version, 500) == 0
    assert bench.dump() == before


def test_a_third_version_takes_what_two_could_not_run(bench: Bench) -> None:
    bench.open(bench.request("one"))
    park_all(bench, "a")
    bench.frontier.retake("b", 500)
    park_all(bench, "b")
    assert bench.frontier.retake("c", 500) == 1
    [one] = bench.claim()
    assert bench.complete(one) == {1}
    bench.frontier.close_tasks([1])
    assert bench.dump().keys() == {bench.key("BATCH", 1)}


def test_a_version_that_claims_it_again_adds_nothing(bench: Bench) -> None:
    """The newer node put it back and the older one was quicker: the newer one may still try."""
    bench.open(bench.request("one"))
    park_all(bench, "old")
    bench.frontier.retake("new", 500)
    park_all(bench, "old")
    assert tried_lists(bench) == {tried("old")}
    assert bench.frontier.retake("new", 500) == 1


def test_each_request_has_its_own_trail(bench: Bench) -> None:
    bench.open(*bench.requests(4))
    one, two, three, four = bench.claim()
    bench.park(one, two, version="a")
    bench.park(three, version="b")
    bench.park(four)
    assert bench.frontier.retake("a", 500) == 1
    assert [request.rid for request in bench.claim()] == [three.rid]
    assert bench.frontier.retake("b", 500) == 2
    assert {request.rid for request in bench.claim()} == {one.rid, two.rid}
    assert bench.frontier.retake("c", 500) == 0
    assert set(bench.frontier.parked(1)) == {four.rid}


def test_parked_for_another_reason_only_unpark_brings_it_back(bench: Bench) -> None:
    bench.open(bench.request("one"))
    park_all(bench, "")
    assert bench.frontier.retake("new", 500) == 0
    assert bench.frontier.unpark(1) == 1
    park_all(bench, "old")
    bench.frontier.retake("new", 500)
    park_all(bench, "")
    assert bench.frontier.retake("newest", 500) == 0
    assert bench.frontier.unpark_all() == 1


def test_code_without_a_version_takes_nothing(bench: Bench) -> None:
    bench.open(bench.request("one"))
    park_all(bench, "old")
    assert bench.frontier.retake("", 500) == 0


def test_unpark_does_not_ask_who_has_tried(bench: Bench) -> None:
    bench.open(*bench.requests(2))
    park_all(bench, "old")
    assert bench.frontier.unpark(1) == 2
    park_all(bench, "old")
    assert tried_lists(bench) == {tried("old")}


@pytest.mark.parametrize("version", ["ü" * 40, "a" * 12 + "+" + "b" * 12, "a,b|c.d:e", "\n"])
def test_any_text_is_a_version(bench: Bench, version: str) -> None:
    bench.open(bench.request("one"))
    park_all(bench, version)
    assert bench.frontier.retake(version, 500) == 0
    assert bench.frontier.retake(version + "'", 500) == 1


def test_the_newest_8_versions_are_remembered(bench: Bench) -> None:
    bench.open(bench.request("one"))
    versions = [f"v{i}" for i in range(11)]
    for version in versions:
        bench.frontier.retake(version, 500)
        park_all(bench, version)
    assert tried_lists(bench) == {tried(*versions[3:])}
    for version in versions[3:]:
        assert bench.frontier.retake(version, 500) == 0
    assert bench.frontier.retake("v2", 500) == 1


# -- marks are kept -------------------------------------------------------------------------------


def test_marks_survive_whatever_happens_to_a_request(bench: Bench) -> None:
    bench.open(bench.request("one"))
    park_all(bench, "a")
    assert bench.frontier.retake("b", 500) == 1
    [one] = bench.claim()
    bench.retry(one)
    [one] = bench.claim_all()
    bench.release(one)
    [one] = bench.claim()
    bench.release(one, deliveries=1)
    [one] = bench.claim()
    assert bench.leases.replay(1) == 1
    [one] = bench.claim(generation=2)
    assert (one.attempts, one.deliveries) == (1, 2)
    bench.park(one, version="b", generation=2)
    assert tried_lists(bench) == {tried("a", "b")}
    assert bench.frontier.retake("a", 500) == bench.frontier.retake("b", 500) == 0
    assert bench.frontier.retake("c", 500) == 1
    [one] = bench.claim(generation=2)
    assert (one.attempts, one.deliveries) == (1, 2)


def test_neither_tries_nor_marks_take_any_room(bench: Bench) -> None:
    bench.open(bench.request("one"))
    park_all(bench, "")
    assert not bench.redis.exists(bench.key("TRIES"))
    bench.frontier.unpark(1)
    park_all(bench, "a")
    assert bench.redis.exists(bench.key("TRIES"))
    bench.frontier.retake("b", 1)
    park_all(bench, "")
    assert not bench.redis.exists(bench.key("TRIES"))


def test_marks_of_a_fresh_request_survive_a_replay(bench: Bench) -> None:
    """Only the marks were known of it before."""
    bench.open(bench.request("one"))
    park_all(bench, "a")
    bench.frontier.unpark(1)
    bench.claim()
    bench.leases.replay(1)
    [one] = bench.claim(generation=2)
    assert (one.attempts, one.deliveries) == (0, 1)
    bench.park(one, version="a", generation=2)
    assert bench.frontier.retake("a", 500) == 0


def test_a_parked_request_that_the_ledger_calls_done_leaves_nothing(bench: Bench) -> None:
    """Its first run was committed by a node that was declared dead."""
    bench.open(*bench.requests(2))
    one, two = park_all(bench, "old")
    assert bench.complete(one) == set()
    assert bench.frontier.audit() == []
    assert bench.frontier.retake("new", 500) == 1
    [again] = bench.claim()
    assert again.rid == two.rid
    assert bench.complete(again) == {1}
    bench.frontier.close_tasks([1])
    assert bench.dump().keys() == {bench.key("BATCH", 1)}


# -- limit, order, places -------------------------------------------------------------------------


def test_no_more_than_asked_for(bench: Bench) -> None:
    """Each call is sent twice here, and moves its requests once."""
    bench.open(*bench.requests(7))
    park_all(bench, "old")
    assert bench.frontier.retake("new", 0) == bench.frontier.retake("new", -1) == 0
    assert [bench.frontier.retake("new", 3) for _ in range(4)] == [3, 3, 1, 0]
    assert bench.places() == (7, 0, 0, 0)


def test_many_come_back_500_a_call(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(store=PartitionedStore)
    bench.open()
    bench.frontier.admit(1, bench.requests(1200))
    park_all(bench, "old")
    assert [bench.frontier.retake("new", 10_000) for _ in range(4)] == [500, 500, 200, 0]


def test_they_are_first_in_line(bench: Bench) -> None:
    bench.open(*bench.requests(5))
    parked = bench.claim(2)
    bench.park(*parked, version="old")
    bench.frontier.retake("new", 500)
    first = bench.claim(2)
    assert {request.rid for request in first} == {request.rid for request in parked}
    assert bench.names(bench.claim()) == [f"a.example/{i}" for i in (2, 3, 4)]


@pytest.mark.parametrize("partitions", [1, 2])
def test_all_tasks_and_hosts(make_bench: Callable[..., Bench], partitions: int) -> None:
    bench = make_bench(partitions=partitions)
    hosts = [f"{c}.example" for c in "abcdef"]
    assert {bench.store.partition_of(host) for host in hosts} == set(range(partitions))
    for task in (1, 2, 3):
        bench.open(*(bench.request(host, host, task=task) for host in hosts), task=task)
    held = park_all(bench, "old")
    assert bench.frontier.retake("new", 10) == 10
    assert bench.frontier.audit() == []
    assert bench.frontier.retake("new", 10) == 8
    assert {request.rid for request in bench.claim_all()} == {request.rid for request in held}


def test_a_paused_task_keeps_its_own(bench: Bench) -> None:
    for task in (1, 2):
        bench.open(bench.request("one", task=task), task=task)
    park_all(bench, "old")
    bench.frontier.pause(1)
    assert bench.frontier.retake("new", 500) == 1
    assert [bench.counts(task).parked for task in (1, 2)] == [1, 0]
    bench.frontier.resume(1)
    assert sorted(request.task for request in bench.claim_all()) == [1, 2]


def test_what_is_parked_during_a_pause_comes_back_after_it(bench: Bench) -> None:
    bench.open(bench.request("one"))
    [one] = bench.claim()
    bench.frontier.pause(1)
    bench.park(one, version="old")
    assert bench.frontier.retake("new", 500) == 0
    bench.frontier.resume(1)
    assert len(bench.claim()) == 1


def test_a_cancelled_task_has_nothing_to_take(bench: Bench) -> None:
    bench.open(*bench.requests(2))
    parked, held = bench.claim()
    bench.park(parked, version="old")
    bench.frontier.cancel(1)
    bench.park(held, version="old")
    assert bench.places() == (1, 0, 0, 0)
    assert bench.frontier.retake("new", 500) == 0
    assert tried_lists(bench) == set()


def test_a_cancel_that_was_cut_short_is_left_to_its_finisher(bench: Bench) -> None:
    bench.open(bench.request("one"))
    park_all(bench, "old")
    bench.store.run("state", 0, 1, "cancelling", "begin")
    assert bench.frontier.retake("new", 500) == 0
    bench.frontier.cancel(1)
    assert bench.counts().cancelled == 1


def test_very_many_that_cannot_move_do_not_stand_in_the_way(
    make_bench: Callable[..., Bench],
) -> None:
    """More paused tasks than one call examines, some running ones between them, and many requests
    that this version has tried."""
    bench = make_bench(store=PartitionedStore)
    for task in range(1, 701):
        bench.open(bench.request("one", task=task), task=task)
    bench.open(task=2000)
    bench.frontier.admit(2000, bench.requests(600, task=2000))
    held = bench.claim_all()
    bench.park(*held[600:], version="old")
    bench.park(*held[:600], version="new")
    awake = set(range(10, 701, 60)) | {2000}
    for task in range(1, 701):
        if task not in awake:
            bench.frontier.pause(task)
    expected = sum(request.task in awake for request in held[600:])
    took = 0
    for _ in range(300):  # that each draw misses one of them has a chance below 1e-50
        took += bench.frontier.retake("new", 500)
        if took == expected:
            break
    assert took == expected
    assert bench.frontier.retake("new", 500) == 0


@pytest.mark.parametrize("damage", ["OWN", "REQ"])
def test_damage_does_not_stop_the_others(make_bench: Callable[..., Bench], damage: str) -> None:
    bench = make_bench(store=PartitionedStore)
    bench.open(*bench.requests(3))
    one, *others = park_all(bench, "old")
    bench.redis.hdel(bench.key(damage), one.rid)
    bench.frontier.retake("new", 500)
    assert {request.rid for request in bench.claim()} == {request.rid for request in others}
    assert tried_lists(bench) == set()
    bench.redis.flushall()


def test_a_group_that_is_lost_does_not_stop_the_others(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(store=PartitionedStore)
    for task in (1, 2):
        bench.open(bench.request("one", task=task), task=task)
    park_all(bench, "old")
    bench.redis.delete(bench.key("PARKED_BY_TRIED", f"1:{mark_of('old')}"))
    assert bench.frontier.audit() != []
    assert bench.frontier.retake("new", 500) == 1
    assert [request.task for request in bench.claim()] == [2]
    bench.frontier.unpark(1)


# -- the commit thread ----------------------------------------------------------------------------


def test_the_commit_thread_says_which_code_could_not_run_it(
    make_bench: Callable[..., Bench], new_database: NewDatabase
) -> None:
    """A batch may hold outcomes of two versions."""
    bench = make_bench(store=PartitionedStore)
    bench.open(*bench.requests(4))
    settled: list[bytes] = []

    def never() -> None:
        raise AssertionError("fenced")

    ledger: Any = DjangoLedger()
    committer = Committer(
        *(Settings(), 1, bench.frontier, ledger, Sieve(), Participants(()), settled.extend, never)
    )
    held = bench.claim()
    for request, version in zip(held, ("a", "b", "a", ""), strict=True):
        outcome = outcome_of(request, version)
        committer.put(outcome.end(Verdict.PARK, f"not in {version}"))
    with django_on(new_database("sqlite")):
        committer.start()
        committer.close()
        committer.join()
    assert set(settled) == {request.rid for request in held}
    one, two, three, four = (request.rid for request in held)
    assert bench.frontier.parked(1) == {
        one: "not in a",
        two: "not in b",
        three: "not in a",
        four: "not in ",
    }
    assert bench.frontier.retake("b", 500) == 2
    assert {request.rid for request in bench.claim()} == {one, three}
