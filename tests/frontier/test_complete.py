"""complete: requests leave, follow-ups enter, counters move, all at once and only once."""

from __future__ import annotations

from collections.abc import Callable

from crawlframe.frontier.client.partitions import PartitionedStore, pack
from tests.frontier.bench import Bench


def test_one_request_from_seed_to_end(bench: Bench) -> None:
    bench.open(bench.request("one"))
    [one] = bench.claim()
    assert bench.complete(one) == {1}
    counts = bench.counts()
    assert (counts.na, counts.nf, counts.ne, counts.nr) == (1, 1, 0, 0)
    assert bench.claim() == []
    bench.frontier.close_tasks([1])
    assert set(bench.dump()) == {bench.key("BATCH", 1)}


def test_an_error_counts_as_one(bench: Bench) -> None:
    bench.open(*bench.requests(2))
    first, second = bench.claim()
    assert bench.complete(first, failed=True) == set()
    assert bench.complete(second) == {1}
    assert (bench.counts().nf, bench.counts().ne) == (1, 1)


def test_follow_ups_enter_with_it(bench: Bench) -> None:
    bench.open(bench.request("one"))
    [one] = bench.claim()
    more = [bench.request("two"), bench.request("three", "b.example"), bench.request("one")]
    later = bench.request("later", delay=60_000)
    assert bench.complete(one, *more, later, duplicates=7) == set()
    counts = bench.counts()
    assert (counts.na, counts.nf, counts.duplicates) == (4, 1, 8)
    assert bench.places() == (2, 0, 1, 0)
    assert sorted(bench.names(bench.claim())) == ["three", "two"]


def test_it_ends_a_task_once(bench: Bench) -> None:
    bench.open(*bench.requests(3))
    held = bench.claim()
    assert bench.complete_all(held[:2]) == set()
    assert bench.complete_all(held) == {1}
    assert bench.complete_all(held) == set()
    assert bench.counts().nf == 3


def test_the_same_request_twice_in_a_batch(bench: Bench) -> None:
    bench.open(bench.request("one"))
    [one] = bench.claim()
    entry = bench.frontier._entry(0, bench.completion(one))
    assert bench.store.run("complete", 0, pack([entry, entry])) == [[b"1"], []]
    assert bench.counts().nf == 1


def test_the_same_completion_twice_in_a_call(bench: Bench) -> None:
    bench.open(bench.request("one"))
    [one] = bench.claim()
    assert bench.frontier.complete([bench.completion(one), bench.completion(one)]) == {1}
    assert bench.counts().nf == 1


def test_a_batch_may_hold_requests_of_many_tasks(bench: Bench) -> None:
    for task in (1, 2, 3):
        bench.open(*bench.requests(task, task=task), task=task)
    held = bench.claim()
    assert bench.complete_all([request for request in held if request.task < 3]) == {1, 2}
    assert [bench.counts(task).nr for task in (1, 2, 3)] == [0, 0, 3]


def test_the_ledger_counts_whoever_holds_the_request(bench: Bench) -> None:
    """The row is committed, so the request is done: held by another, ready, delayed or parked."""
    bench.open(*bench.requests(4))
    held, delayed, parked, ready = bench.claim()
    bench.retry(delayed, 60_000)
    bench.park(parked)
    bench.release(ready)
    assert bench.places() == (1, 1, 1, 1)
    bench.leases.replay(1)
    bench.sequences[2] = 0
    while "a.example/0" not in bench.names(taken := bench.claim(1, generation=2)):
        bench.release(*taken, generation=2)
    for request, left in ((held, 3), (delayed, 2), (parked, 1), (ready, 0)):
        assert bench.complete(request) == (set() if left else {1})
        assert bench.counts().nr == left
        assert bench.frontier.audit() == []
    assert bench.counts()[1:] == (4, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    assert bench.claim_all(generation=2) == []


def test_strangers_are_left_alone(bench: Bench) -> None:
    bench.open(bench.request("one"))
    before = bench.dump()
    stranger, gone = bench.request("two"), bench.request("one", task=2)
    assert bench.complete(stranger, bench.request("three")) == set()
    assert bench.complete(gone, task=2) == set()
    assert bench.dump() == before


def test_a_late_completion_of_a_closed_task(make_bench: Callable[..., Bench]) -> None:
    """A slow run finishes after another run has ended the task; it must not fail."""
    for partitions in (1, 3):
        bench = make_bench(partitions=partitions)
        bench.redis.flushall()
        bench.open(bench.request("one"))
        [one] = bench.claim_all()
        follow_ups = [bench.request(f"{c}", f"{c}.example") for c in "abcdefgh"]
        bench.complete(one, *follow_ups)
        while found := bench.claim_all():
            bench.complete_all(found)
        bench.frontier.close_tasks([1])
        before = bench.dump()
        assert bench.complete(one, *follow_ups) == set()
        assert bench.dump() == before


def test_a_batch_of_any_size(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(store=PartitionedStore)
    bench.open()
    bench.frontier.admit(1, bench.requests(1300))
    held = bench.claim_all()
    assert len(held) == 1300
    completions = []
    for i, request in enumerate(held):
        links = [bench.request(f"{i}.{n}", f"h{n % 9}.example") for n in range(i % 3)]
        completions.append(bench.completion(request, *links))
    assert bench.frontier.complete(completions) == set()
    assert bench.counts().nf == 1300
    assert bench.counts().ready == sum(i % 3 for i in range(1300))


def test_nothing_of_a_request_is_left(bench: Bench) -> None:
    bench.open(bench.request("one"), bench.request("two"))
    one, _ = bench.claim()
    bench.retry(one)
    [one] = bench.claim_all()
    assert one.attempts == 1
    bench.complete(one)
    bench.claim_all()
    text = repr({key: value for key, value in bench.dump().items() if "batch" not in key})
    assert repr(one.rid)[2:-1] not in text


def test_follow_ups_of_its_own_host_use_the_slot_that_it_frees(bench: Bench) -> None:
    bench.open(bench.request("one"), concurrency=1)
    [one] = bench.claim()
    bench.complete(one, bench.request("two"))
    assert bench.names(bench.claim()) == ["two"]
