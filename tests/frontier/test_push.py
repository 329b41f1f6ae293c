"""push: follow-up lists longer than one call may be, in chunks with a cursor in Redis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from crawlframe.frontier import Frontier
from crawlframe.frontier.client.partitions import PartitionedStore, pack
from crawlframe.frontier.client.records import groups
from crawlframe.request.request import Admission
from tests.frontier.bench import Bench

MANY = 1700


def start(bench: Bench) -> tuple[Any, list[Admission]]:
    bench.open(bench.request("root"))
    [root] = bench.claim()
    return root, [bench.request(f"link {i}", f"h{i % 3}.example") for i in range(MANY)]


@pytest.mark.parametrize("n", [499, 500, 501, 1000, 1001, MANY])
def test_a_list_of_any_length(bench: Bench, n: int) -> None:
    root, links = start(bench)
    assert bench.complete(root, *links[:n]) == set()
    assert (bench.counts().na, bench.counts().nf) == (1 + n, 1)
    assert not bench.redis.exists(bench.key("CURSOR"))
    assert sorted(bench.names(bench.claim_all())) == sorted(bench.names(links[:n]))


def test_several_long_lists_in_a_batch(bench: Bench) -> None:
    bench.open(*bench.requests(3))
    held = bench.claim()
    lists = [[bench.request(f"{i}.{n}") for n in range(700 * i)] for i in range(3)]
    bench.frontier.complete(
        [bench.completion(r, *links) for r, links in zip(held, lists, strict=True)]
    )
    assert (bench.counts().na, bench.counts().nf) == (3 + 2100, 3)


class Dying(PartitionedStore):
    """Dies before or after a script; ``calls`` counts the scripts that write follow-ups."""

    at: int = 0
    after = False
    calls = 0

    def run(self, verb: str, partition: int, *args: Any) -> Any:
        counted = verb in ("push", "complete")
        self.calls += counted
        dies = counted and self.calls == self.at
        if dies and not self.after:
            raise ConnectionError
        answer = super().run(verb, partition, *args)
        if dies:
            raise ConnectionError
        return answer


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_a_run_that_dies_is_taken_up(
    make_bench: Callable[..., Bench], at: int, after: bool
) -> None:
    """Whatever part of the list was pushed, the next run of the request continues there; it never
    completes early and never pushes twice."""
    bench = make_bench(store=Dying)
    root, links = start(bench)
    bench.store.at, bench.store.after = at, after
    with pytest.raises(ConnectionError):
        bench.complete(root, *links)
    assert bench.frontier.audit() == []
    completed = at == 4 and after
    assert bench.counts().nr > 0
    assert bench.counts().nf == completed
    assert bench.complete(root, *links) == set()
    assert (bench.counts().na, bench.counts().nf) == (1 + MANY, 1)
    assert bench.counts().duplicates == 0
    assert not bench.redis.exists(bench.key("CURSOR"))


def test_a_short_completion_does_not_overtake_a_long_one(bench: Bench) -> None:
    """A completion without the cursor gets it as the answer, and completes nothing."""
    root, links = start(bench)
    entry = bench.frontier._entry(0, bench.completion(root, *links))
    assert bench.frontier._push_from(0, entry, 0)[4] == 1500
    assert bench.store.run("complete", 0, pack([[*entry[:5], groups(entry[5])]])) == [
        [],
        [root.rid, 1500],
    ]
    assert bench.redis.hget(bench.key("CURSOR"), root.rid) == b"1500"
    assert bench.counts().nf == 0
    assert bench.complete(root, *links) == set()
    assert (bench.counts().na, bench.counts().nf) == (1 + MANY, 1)
    assert bench.counts().duplicates == 0


@pytest.mark.parametrize("steps", range(1, 5))
def test_two_runs_push_the_same_list(make_bench: Callable[..., Bench], steps: int) -> None:
    """One run is overtaken by another after each of its steps: every link enters once."""

    class Overtaken(PartitionedStore):
        left = steps

        def run(self, verb: str, partition: int, *args: Any) -> Any:
            if verb in ("push", "complete"):
                self.left -= 1
                if self.left == 0:
                    assert Frontier(PartitionedStore(self.redis)).complete([completion]) == set()
            return super().run(verb, partition, *args)

    bench = make_bench(store=Overtaken)
    root, links = start(bench)
    completion = bench.completion(root, *links)
    assert bench.frontier.complete([completion]) == set()
    assert (bench.counts().na, bench.counts().nf, bench.counts().duplicates) == (1 + MANY, 1, 0)


def test_a_run_that_is_behind_again_and_again_does_not_give_up(
    make_bench: Callable[..., Bench],
) -> None:
    """Before each completion another run pushes a chunk and dies. Only this one completes it."""

    class Hindered(PartitionedStore):
        hindrances = 2

        def run(self, verb: str, partition: int, *args: Any) -> Any:
            if verb == "complete" and self.hindrances:
                self.hindrances -= 1
                other = Dying(self.redis)
                other.at, other.after = 2, True
                with pytest.raises(ConnectionError):
                    Frontier(other).complete([hindrance])
            return super().run(verb, partition, *args)

    bench = make_bench(store=Hindered)
    root, links = start(bench)
    hindrance = bench.completion(root, *links)
    assert bench.frontier.complete([bench.completion(root, *links[:400])]) == set()
    assert bench.counts().nf == 1
    assert bench.places()[1] == 0


def test_nothing_is_pushed_for_a_request_that_is_not_pending(bench: Bench) -> None:
    root, links = start(bench)
    bench.complete(root, bench.request("only"))
    before = bench.dump()
    assert bench.complete(root, *links) == set()
    assert bench.dump() == before


def test_a_parent_that_is_parked_meanwhile_stays_in_the_list_of_its_version(bench: Bench) -> None:
    root, links = start(bench)
    bench.park(root, version="new")  # by this node, whose earlier self has recorded the links
    entry = bench.frontier._entry(0, bench.completion(root, *links))
    bench.frontier._push_from(0, entry, 0)
    assert bench.frontier.audit() == []
    assert bench.frontier.retake("new", 100) == 0
    assert bench.frontier.retake("other", 100) == 1
