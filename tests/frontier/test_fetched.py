"""claim with finished fetches: their hosts' slots are freed, once, while the requests stay with
their generation until they are settled."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from crawlframe.errors import Fenced
from crawlframe.frontier import FreedSlot
from crawlframe.frontier.client.partitions import PartitionedStore
from tests.frontier.bench import Bench, Losing


def slots(bench: Bench, host: str = "a.example") -> int:
    """The number of slots of the host that are taken."""
    partition = bench.store.partition_of(host)
    return int(bench.redis.hget(bench.key("HOST", host, partition), "a") or 0)


def test_the_same_claim_uses_the_slot(bench: Bench) -> None:
    bench.open(*bench.requests(5), concurrency=2)
    first, second = bench.claim()
    assert bench.claim() == []
    [third] = bench.claim(fetched=[first])
    assert slots(bench) == 2
    assert bench.places() == (2, 3, 0, 0)
    fourth, fifth = bench.claim(fetched=[second, third])
    assert bench.places() == (0, 5, 0, 0)
    assert bench.complete_all([first, second, third, fourth, fifth]) == {1}
    assert slots(bench) == 0


def test_other_generations_get_the_slot(bench: Bench) -> None:
    bench.open(*bench.requests(2), concurrency=1)
    [held] = bench.claim(generation=1)
    assert bench.claim(generation=2) == []
    assert bench.claim(0, generation=1, fetched=[held]) == []
    assert len(bench.claim(generation=2)) == 1
    assert bench.redis.smembers(bench.key("INPROGRESS", 1)) == {held.rid}


@pytest.mark.parametrize("verb", ["complete", "retry", "release", "park", "replay"])
def test_a_slot_is_given_back_once(bench: Bench, verb: str) -> None:
    """Whatever becomes of a request whose fetch is over, the other one keeps its slot."""
    bench.open(*bench.requests(4), concurrency=2)
    done, other = bench.claim()
    bench.claim(0, fetched=[done])
    assert slots(bench) == 1
    bench.give_up(done, verb)
    left = 0 if verb == "replay" else 1
    assert slots(bench) == left
    assert len(bench.claim(generation=2)) == 2 - left
    assert bench.claim(generation=2) == []
    if left:
        bench.complete(other)
        assert len(bench.claim(generation=2)) == 1


def test_what_is_not_so_held_is_left_alone(bench: Bench) -> None:
    bench.open(*bench.requests(9), concurrency=6)
    completed, delayed, parked, told, held, others = bench.claim(5) + bench.claim(1, generation=2)
    bench.complete(completed)
    bench.retry(delayed, 60_000)
    bench.park(parked)
    bench.claim(0, fetched=[told])
    assert slots(bench) == 2
    bench.claim(
        0,
        fetched=[completed, delayed, parked, told, told, others, held._replace(claim=77)],
    )
    assert slots(bench) == 2
    assert bench.claim(0, fetched=[held, held]) == []
    assert slots(bench) == 1
    assert bench.names(bench.claim(generation=2)) == [f"a.example/{n}" for n in (6, 7, 8)]


def test_a_late_word_of_the_first_fetch_does_not_end_the_second(bench: Bench) -> None:
    """Not even with the claim that gives the request out again."""
    bench.open(bench.request("one"), bench.request("two"), concurrency=1)
    [first] = bench.claim()
    bench.release(first)
    [again] = bench.claim(fetched=[first])
    assert again.rid == first.rid
    assert bench.claim(fetched=[first]) == []
    assert bench.names(bench.claim(fetched=[again])) == ["two"]


def test_a_host_without_fetches_is_forgotten_and_comes_back(bench: Bench) -> None:
    bench.open(bench.request("one"), concurrency=1)
    [one] = bench.claim()
    bench.claim(0, fetched=[one])
    assert not bench.redis.exists(bench.key("HOST", "a.example"))
    bench.complete(one, bench.request("two"), bench.request("three"))
    [two] = bench.claim()
    assert bench.claim() == []
    assert bench.names(bench.claim(fetched=[two])) == ["three"]


def test_the_delay_of_a_host_is_not_shortened(bench: Bench) -> None:
    bench.open(*bench.requests(2), concurrency=1, delay=60_000)
    [one] = bench.claim()
    assert bench.claim(fetched=[one]) == []
    assert 0 < bench.wait <= 60_000


def test_a_fenced_generation_frees_nothing(bench: Bench) -> None:
    bench.open(*bench.requests(2), concurrency=1)
    bench.leases.renew(1, 15)
    [held] = bench.claim()
    bench.redis.sadd(bench.key("FENCED"), 1)
    before = bench.dump()
    with pytest.raises(Fenced):
        bench.claim(fetched=[held])
    assert bench.dump() == before


def test_very_many(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(store=PartitionedStore)
    bench.open()
    bench.frontier.admit(1, [one for c in "abcde" for one in bench.requests(200, c)])
    held = bench.claim(500)
    bench.claim(0, fetched=held)
    assert sum(slots(bench, c) for c in "abcde") == 0
    assert bench.places() == (500, 500, 0, 0)
    assert len(bench.claim(500, fetched=held)) == 500
    assert sum(slots(bench, c) for c in "abcde") == 500


def test_every_partition_is_called_whatever_the_others_return(
    make_bench: Callable[..., Bench],
) -> None:
    bench = make_bench(partitions=3)
    hosts = {bench.store.partition_of(f"{c}.example"): f"{c}.example" for c in "abcdefgh"}
    assert len(hosts) == 3
    bench.open(*(one for host in hosts.values() for one in bench.requests(3, host)), concurrency=1)
    held = bench.claim()
    assert len(held) == 3
    assert len(bench.claim(1, fetched=held)) == 1  # the first partition has enough
    assert sum(slots(bench, host) for host in hosts.values()) == 1
    assert len(bench.claim()) == 2


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_a_lost_answer_frees_no_slot_twice(make_bench: Callable[..., Bench], lost: int) -> None:
    """The claim is repeated, with the finished fetches of the first one and more."""

    bench = make_bench(partitions=3, store=Losing)
    hosts = {bench.store.partition_of(f"{c}.example"): f"{c}.example" for c in "abcdefgh"}
    bench.open(*(one for host in hosts.values() for one in bench.requests(4, host)), concurrency=2)
    held = bench.claim()
    assert len(held) == 6
    over = [FreedSlot(one.rid, one.host, one.claim) for one in held]
    bench.store.lost = bench.store.claims + lost
    with pytest.raises(ConnectionError):
        bench.frontier.claim(1, 2, 6, over[:3])
    more = bench.frontier.claim(1, 2, 6, over).requests
    more += bench.frontier.claim(1, 3, 6).requests
    assert len({one.rid for one in more}) == len(more) == 6
    assert [slots(bench, host) for host in hosts.values()] == [2, 2, 2]
    assert bench.counts().in_progress == 12
