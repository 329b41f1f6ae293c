"""open, admit: a task becomes known, its seeds and later requests enter once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from crawlframe.errors import FrontierError
from crawlframe.frontier import Frontier
from crawlframe.frontier.client.partitions import PartitionedStore, pack
from tests.frontier.bench import Bench, Resending


def test_a_task_starts_with_its_seeds(bench: Bench) -> None:
    bench.open(bench.request("one"), bench.request("two", "b.example"), task=7)
    counts = bench.counts(7)
    assert (counts.state, counts.na, counts.nf, counts.ne) == ("running", 2, 0, 0)
    assert bench.places(7) == (2, 0, 0, 0)
    assert bench.frontier.open_tasks() == [7]


def test_an_unknown_task_has_no_counts(bench: Bench) -> None:
    assert bench.frontier.counts(9) is None
    assert bench.frontier.open_tasks() == []


def test_opening_again_changes_nothing(bench: Bench) -> None:
    bench.open(bench.request("one"))
    before = bench.dump()
    bench.open(bench.request("one"), bench.request("two"), delay=5, concurrency=1)
    assert bench.dump() == before


def test_a_seed_given_twice_is_admitted_once(bench: Bench) -> None:
    bench.open(bench.request("one"), bench.request("one"))
    assert (bench.counts().na, bench.counts().duplicates) == (1, 1)


def test_a_task_without_seeds_has_nothing_left(bench: Bench) -> None:
    bench.open()
    assert (bench.counts().na, bench.counts().nr) == (0, 0)


def test_cookies_of_a_task_that_is_gone_do_not_make_it_known(bench: Bench) -> None:
    bench.frontier.share_cookies(1, {"a": "b"})
    assert bench.dump() == {}
    # Nor does a leftover of an older version get in the way.
    bench.redis.hset(bench.key("TASK", 1), "cookies", 3)
    bench.open(bench.request("one"))
    assert bench.names(bench.claim()) == ["one"]


def test_a_delayed_seed_waits(bench: Bench) -> None:
    bench.open(bench.request("late", delay=60_000), bench.request("early"))
    assert bench.places() == (1, 0, 1, 0)
    assert bench.names(bench.claim()) == ["early"]
    assert 0 < bench.wait <= 60_000


def test_a_delayed_seed_comes_when_it_is_due(bench: Bench) -> None:
    due = bench.now() + 20
    bench.open(bench.request("late", delay=20))
    while not (found := bench.claim()):
        assert 0 <= bench.wait <= 20
    assert bench.now() >= due
    assert bench.names(found) == ["late"]


def test_admit_counts_what_is_new(bench: Bench) -> None:
    bench.open(bench.request("one"))
    some = [
        bench.request("one"),
        bench.request("two"),
        bench.request("three"),
        bench.request("two"),
    ]
    plain = Frontier(PartitionedStore(bench.redis))
    assert plain.admit(1, some) == 2
    assert plain.admit(1, some) == 0
    assert (bench.counts().na, bench.counts().duplicates) == (3, 0)
    assert bench.frontier.admit(1, []) == 0


def test_admit_needs_a_known_task(bench: Bench) -> None:
    before = bench.dump()
    with pytest.raises(FrontierError, match="task 3 is not known"):
        bench.frontier.admit(3, [bench.request("one", task=3)])
    assert bench.dump() == before


def test_the_same_request_of_two_tasks_is_two_requests(bench: Bench) -> None:
    bench.open(bench.request("one", task=1), task=1)
    bench.open(bench.request("one", task=2), task=2)
    assert sorted(request.task for request in bench.claim()) == [1, 2]


def test_the_page_limit_holds(bench: Bench) -> None:
    bench.open(bench.request("root"), page_limit=3)
    [root] = bench.claim()
    links = [bench.request(name) for name in ("one", "two", "three", "root", "four", "one", "five")]
    bench.complete(root, *links)
    counts = bench.counts()
    assert (counts.na, counts.nf, counts.limited, counts.duplicates) == (3, 1, 3, 2)
    assert bench.names(bench.claim()) == ["one", "two"]


def test_more_seeds_than_fit_one_call_of_admit(bench: Bench) -> None:
    bench.open()
    assert bench.frontier.admit(1, bench.requests(1203)) == 1203
    assert bench.counts().ready == 1203


class Watching(Resending):
    """Checks the counters after every script."""

    seen: list[Any]

    def run(self, verb: str, partition: int, *args: Any) -> Any:
        answer = super().run(verb, partition, *args)
        self.seen.append(Frontier(self).counts(1))
        return answer


def test_a_task_that_opens_never_looks_empty(make_bench: Callable[..., Bench]) -> None:
    for n, host in enumerate(("a.example", "b.example", "c.example", "d.example", "-")):
        bench = make_bench(partitions=3, store=Watching)
        bench.redis.flushall()
        bench.store.seen = []
        bench.open(bench.request(str(n), host))
        *early, last = bench.store.seen
        assert early == [None, None]
        assert last.nr == 1


def test_the_answers_of_scripts_that_nobody_asks_today(bench: Bench) -> None:
    frontier = Frontier(PartitionedStore(bench.redis))
    fields, cookies = pack(["state", "running"]), pack(["a", "b"])
    assert [frontier.store.run("open", 0, 1, fields, pack([])) for _ in range(2)] == [1, 0]
    assert [frontier.store.run("cookies", 0, 1, cookies) for _ in range(2)] == [1, 0]
    assert frontier.store.run("lease", 0, 5, 1000) == 1
    assert frontier.store.run("confirm", 0) == 1
    assert [frontier.store.run("close", 0, 1) for _ in range(2)] == [1, 1]


def test_a_task_whose_requests_failed_can_be_closed(bench: Bench) -> None:
    bench.open(bench.request("one"))
    bench.complete(bench.claim()[0], failed=True)
    bench.frontier.close_tasks([1])
    assert bench.frontier.open_tasks() == []


def test_very_many_fingerprints_are_forgotten_bit_by_bit(make_bench: Callable[..., Bench]) -> None:
    """As for a task of four million requests."""
    bench = make_bench(store=PartitionedStore)
    bench.open()
    level, split = 14, 5
    bench.redis.hset(bench.key("TASK", 1), mapping={"level": level, "split": split})
    buckets = (0, 1, 299, 300, 8191, 8192, 2**level - 1, 2**level + split - 1)
    for bucket in buckets:
        bench.redis.sadd(bench.key("SEEN", f"1:{bucket}"), 1)
    calls = 1
    while not bench.store.run("close", 0, 1):
        calls += 1
    assert calls == -(-(2**level + split) // 300)
    assert not bench.redis.keys("*:seen:1:*")
    assert bench.frontier.open_tasks() == []


@pytest.mark.parametrize("partitions", [1, 3])
def test_the_limit_per_host_holds(make_bench: Callable[..., Bench], partitions: int) -> None:
    bench = make_bench(partitions=partitions)
    bench.open(bench.request("root", "/1"), host_page_limit=2)
    [root] = bench.claim()
    a, b = (
        [bench.request(f"{host}{n}", host) for n in range(4)] for host in ("a.example", "b.example")
    )
    bench.complete(root, *a, a[0], a[3], b[0])
    first = bench.claim()
    assert sorted(bench.names(first)) == ["a.example0", "a.example1", "b.example0"]
    bench.complete(first[0], *b, *a)  # requests that have ended count as well
    assert (bench.counts().na, bench.counts().limited) == (5, 0)
    assert bench.frontier.admit(1, [*a, bench.request("c", "c.example")]) == 1


def test_links_beyond_the_limit_per_host_are_counted(bench: Bench) -> None:
    bench.open(bench.request("root", "/1"), host_page_limit=2)
    [root] = bench.claim()
    links = bench.requests(4)
    bench.complete(root, *links, links[0], links[3])
    counts = bench.counts()
    assert (counts.na, counts.host_limited, counts.limited, counts.duplicates) == (3, 3, 0, 1)
    assert bench.frontier.admit(1, links) == 0
    assert bench.counts().host_limited == 3  # a repeated call would count them twice


def test_both_page_limits_hold(bench: Bench) -> None:
    bench.open(bench.request("root", "/1"), host_page_limit=2, page_limit=4)
    [root] = bench.claim()
    bench.complete(root, *bench.requests(3), *bench.requests(3, "b.example"))
    counts = bench.counts()
    assert (counts.na, counts.host_limited, counts.limited) == (4, 1, 2)


def test_tasks_without_a_limit_per_host_keep_no_hosts(bench: Bench) -> None:
    bench.open(bench.request("one"))
    keys = bench.frontier.store.keys[0]
    assert not bench.redis.exists(keys("HOST_PAGES", 1))
    assert not bench.redis.hexists(keys("TASK", 1), "host_limit")
    bench.open(bench.request("two", task=2), task=2, host_page_limit=1)
    assert bench.redis.hgetall(keys("HOST_PAGES", 2)) == {b"a.example": b"1"}
    [two] = [request for request in bench.claim() if request.task == 2]
    bench.complete(two)
    bench.frontier.close_tasks([2])
    assert not bench.redis.exists(keys("HOST_PAGES", 2))
