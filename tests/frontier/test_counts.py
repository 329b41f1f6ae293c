"""counts, spiders: data with many readers, written beside the queues."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from crawlframe.frontier import Frontier
from crawlframe.frontier.client.partitions import PartitionedStore
from crawlframe.spider.settings import SpiderSettings
from crawlframe.spider.spider import SpiderInfo
from tests.frontier.bench import Bench


def test_every_place_is_counted(bench: Bench) -> None:
    bench.open(*bench.requests(6), bench.request("late", delay=60_000))
    done, failed, retried, parked = bench.claim(4)
    bench.complete(done, duplicates=3, items=2)
    bench.complete(failed, failed=True)
    bench.retry(retried, 60_000)
    bench.park(parked)
    bench.claim(1)
    counts = bench.counts()
    assert counts._asdict() == {
        "state": "running",
        "na": 7,
        "nf": 1,
        "ne": 1,
        "duplicates": 3,
        "limited": 0,
        "in_progress": 1,
        "delayed": 2,
        "parked": 1,
        "items": 2,
        "cancelled": 0,
        "excluded": 0,
        "host_limited": 0,
        "beyond": 0,
    }
    assert (counts.nr, counts.ready) == (5, 1)


def test_counts_of_many_tasks(make_bench: Callable[..., Bench]) -> None:
    for partitions in (1, 3):
        bench = make_bench(partitions=partitions)
        bench.redis.flushall()
        for task in (1, 2):
            hosts = [f"{c}.example" for c in "abcde"[: 2 + task]]
            bench.open(*(bench.request(h, h, task=task) for h in hosts), task=task)
        counts = bench.frontier.counts_of([2, 9, 1])
        assert list(counts) == [2, 9, 1]
        assert counts[9] is None
        assert (counts[1].na, counts[2].na) == (3, 4)
    assert bench.frontier.counts_of([]) == {}


def test_a_closed_task_is_unknown(bench: Bench) -> None:
    bench.open(bench.request("a"))
    bench.frontier.close_tasks([1])  # it has something left: nothing happens
    assert bench.counts().nr == 1
    bench.complete_all(bench.claim())
    bench.frontier.close_tasks([1])
    assert bench.frontier.counts(1) is None
    assert bench.frontier.open_tasks() == []
    bench.frontier.close_tasks([1])
    bench.frontier.close_tasks([77])


def test_the_script_itself_closes_nothing_that_is_pending(bench: Bench) -> None:
    bench.open(bench.request("a"))
    before = bench.dump()
    assert bench.store.run("close", 0, 1) == 1
    assert bench.dump() == before


def test_a_task_whose_counters_were_lost_can_be_closed(bench: Bench) -> None:
    bench.open()
    bench.redis.delete(bench.key("TASK", 1))
    bench.frontier.close_tasks([1])
    assert bench.frontier.open_tasks() == []


def test_close_leaves_nothing_behind(make_bench: Callable[..., Bench]) -> None:
    """A life with all of it: delays, limits, retries, parking, cookies, replays, long lists."""
    bench = make_bench(store=PartitionedStore)
    bench.open(bench.request("root"), delay=1, concurrency=2)
    bench.frontier.share_cookies(1, {"a": "1"})
    [root] = bench.claim()
    links = [bench.request(f"link {i}", f"h{i % 5}.example", depth=i % 3) for i in range(1200)]
    bench.complete(root, *links)
    while len(held := bench.claim(2)) < 2:
        pass
    bench.retry(held[0])
    bench.park(held[1])
    bench.frontier.pause(1)
    bench.claim_all()
    for link in links[:300]:
        bench.complete(link)
    bench.frontier.resume(1)
    bench.sequences[2] = 0
    for _ in range(3):
        bench.claim(generation=2)
    bench.leases.replay(2)
    bench.frontier.pause(1)
    bench.after(bench.now() + 5)
    bench.claim_all()
    assert bench.redis.scard(bench.key("PAUSED", 1)) > 0
    ended = bench.frontier.complete([bench.completion(link) for link in links])
    assert ended == {1}
    bench.frontier.close_tasks([1])
    bench.leases.replay(1)
    bench.sequences[3] = 0
    bench.after(bench.now() + 5)
    bench.claim_all(generation=3)
    assert bench.dump() == {bench.key("FENCED"): {b"1", b"2"}}


def test_close_of_a_paused_task_with_very_many_lanes(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(store=PartitionedStore)
    bench.open()
    requests = [bench.request(str(i), f"h{i}.example") for i in range(700)]
    bench.frontier.admit(1, requests)
    bench.frontier.pause(1)
    bench.claim_all()
    bench.frontier.complete([bench.completion(request) for request in requests])
    bench.frontier.close_tasks([1])
    assert bench.dump() == {}


# -- two waves ------------------------------------------------------------------------------------


def test_the_end_of_a_task_is_no_illusion(make_bench: Callable[..., Bench]) -> None:
    """A request moves between the reads of two partitions, and its follow-up is in the first."""
    bench = make_bench(partitions=2, store=PartitionedStore)
    hosts = {bench.store.partition_of(f"{c}.example"): f"{c}.example" for c in "abcdef"}
    bench.open(bench.request("parent", hosts[1]))
    [parent] = bench.claim_all()
    moved: list[int] = []

    class Interrupted(Frontier):
        def _read_counts(self, tasks: list[int]) -> Any:
            original = self.store.keys

            class Keys(list):
                def __iter__(self) -> Any:
                    yield original[0]
                    if not moved:
                        moved.append(1)
                        bench.complete(parent, bench.request("child", hosts[0]))
                    yield original[1]

            self.store.keys = Keys(original)
            try:
                return super()._read_counts(tasks)
            finally:
                self.store.keys = original

    counts = Interrupted(PartitionedStore(bench.redis, partitions=2)).counts(1)
    assert moved
    assert counts is not None
    assert counts.nr > 0
    assert bench.counts().nr == 1


# -- spiders, connections -------------------------------------------------------------------------


def test_spiders_are_published(bench: Bench) -> None:
    info = SpiderInfo(
        "listings", "Finds hoüses.", "spiders.listings", {}, SpiderSettings(delay=1.5)
    )
    assert bench.frontier.spiders.all() == {}
    bench.frontier.spiders.publish([])
    bench.frontier.spiders.publish([info, msgspec.structs.replace(info, name="a")])
    bench.frontier.spiders.publish([msgspec.structs.replace(info, doc="Better.")])
    spiders = bench.frontier.spiders.all()
    assert list(spiders) == ["a", "listings"]
    assert spiders["a"] == msgspec.structs.replace(info, name="a")
    assert spiders["listings"].doc == "Better."
