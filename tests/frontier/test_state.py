"""pause, resume, cancel: state, advance and unpark together; and recovery from a dying caller."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from crawlframe.errors import FrontierError
from crawlframe.frontier import tasks
from crawlframe.frontier.client.partitions import PartitionedStore, pack
from tests.frontier.bench import Bench


def test_pause_and_resume(bench: Bench) -> None:
    bench.open(bench.request("a"), bench.request("b", "b.example"), bench.request("c", depth=1))
    bench.frontier.pause(1)
    assert bench.counts().state == "paused"
    assert bench.claim_all() == []
    assert bench.places() == (3, 0, 0, 0)
    bench.frontier.resume(1)
    assert bench.counts().state == "running"
    assert sorted(bench.names(bench.claim_all())) == ["a", "b", "c"]


def test_both_may_be_said_again(bench: Bench) -> None:
    bench.open(bench.request("a"))
    for verb in (bench.frontier.pause, bench.frontier.resume, bench.frontier.cancel):
        verb(1)
        before = bench.dump()
        verb(1)
        assert bench.dump() == before
    assert bench.counts().state == "cancelling"


def test_pause_before_any_claim_saw_it_and_after(bench: Bench) -> None:
    """The lanes are hidden only when a claim meets them; resuming must work in both cases."""
    bench.open(*bench.requests(2))
    bench.frontier.pause(1)
    bench.frontier.resume(1)
    assert len(bench.claim(1)) == 1
    bench.frontier.pause(1)
    assert bench.claim_all() == []
    hidden = bench.dump()
    bench.frontier.pause(1)
    assert bench.dump() == hidden
    bench.frontier.resume(1)
    assert len(bench.claim(1)) == 1


@pytest.mark.parametrize("verb", ["pause", "resume", "cancel"])
def test_an_unknown_task(bench: Bench, verb: str) -> None:
    with pytest.raises(FrontierError, match="task 5 is not in the frontier"):
        getattr(bench.frontier, verb)(5)
    assert bench.dump() == {}


def test_resume_brings_back_what_is_parked(bench: Bench) -> None:
    bench.open(bench.request("a"))
    bench.park(bench.claim()[0])
    bench.frontier.resume(1)
    assert bench.names(bench.claim()) == ["a"]


def test_very_many_lanes_come_back(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(store=PartitionedStore)
    bench.open()
    hosts = [f"h{i}.example" for i in range(1100)]
    bench.frontier.admit(1, [bench.request(host, host) for host in hosts])
    bench.frontier.pause(1)
    assert bench.claim_all() == []
    assert bench.redis.scard(bench.key("PAUSED", 1)) == 1100
    bench.frontier.resume(1)
    assert len(bench.claim_all()) == 1100


def test_cancel_ends_all_that_waits(bench: Bench) -> None:
    """Paused, parked and delayed requests, whatever the limits of the task. Requests in flight
    continue."""
    some = [bench.request(f"late {i}", delay=60_000) for i in range(5)]
    bench.open(*bench.requests(4), *some, concurrency=2)
    parked, held = bench.claim(2)
    bench.park(parked)
    bench.frontier.pause(1)
    assert bench.claim_all() == []
    bench.frontier.cancel(1)
    assert bench.claim_all() == []
    assert bench.places() == (0, 1, 0, 0)
    counts = bench.counts()
    assert (counts.na, counts.nf, counts.ne, counts.cancelled) == (9, 0, 8, 8)
    assert bench.complete(held) == {1}
    bench.frontier.close_tasks([1])
    bench.leases.replay(1)
    assert {key.split(":")[-1] for key in bench.dump()} == {"fenced"}


def test_cancel_of_very_many_delayed(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(store=PartitionedStore)
    for task in (1, 2):
        bench.open(task=task)
        late = [bench.request(f"{i}", task=task, delay=60_000) for i in range(2000)]
        bench.frontier.admit(task, late)
    bench.frontier.cancel(1)
    assert bench.counts(1).cancelled == 2000
    assert bench.places(1) == (0, 0, 0, 0)
    assert bench.places(2) == (0, 0, 2000, 0)


def test_cancel_of_very_many_lanes_and_entries(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(store=PartitionedStore, partitions=2)
    bench.open()
    bench.open(task=11)  # its lanes are not task 1's
    hosts = [f"h{i}.example" for i in range(1100)]
    wide = [bench.request(host, host) for host in hosts]
    deep = [bench.request(f"{i}", "deep.example") for i in range(1100)]
    bench.frontier.admit(1, wide + deep)
    bench.frontier.admit(11, [bench.request("other", task=11)])
    assert bench.frontier.cancel(1) is True
    counts = bench.counts(1)
    assert (counts.na, counts.ne, counts.cancelled, counts.nr) == (2200, 2200, 2200, 0)
    assert counts.state == "cancelling"
    assert [request.task for request in bench.claim_all()] == [11]


def test_a_cancel_ends_in_its_time_and_goes_on_later(bench: Bench) -> None:
    bench.open(*bench.requests(3))
    assert bench.frontier.cancel(1, seconds=-1) is False
    assert (bench.counts().state, bench.counts().nr) == ("changing", 3)
    assert bench.frontier.cancel(1) is True
    assert (bench.counts().state, bench.counts().nr) == ("cancelling", 0)


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes each reading of the clock take a second."""
    ticks = count()
    monkeypatch.setattr(tasks, "time", SimpleNamespace(monotonic=lambda: next(ticks)))


def parked(bench: Bench) -> None:
    bench.open()
    bench.frontier.admit(1, bench.requests(1600))
    for request in bench.claim_all():
        bench.park(request)


def delayed(bench: Bench) -> None:
    bench.open(*(bench.request(f"{i}", delay=60_000) for i in range(400)))
    bench.frontier.admit(1, [bench.request(f"more {i}", delay=60_000) for i in range(1600)])


def among_others(bench: Bench) -> None:
    """The search takes the time, not its results."""
    bench.open(bench.request("one"))
    bench.open(*(bench.request(f"{i}", f"h{i}.example", task=2) for i in range(200)), task=2)


@pytest.mark.parametrize("waiting", [parked, delayed, among_others])
@pytest.mark.usefixtures("ticking")
def test_all_steps_of_a_cancel_keep_to_its_time(
    make_bench: Callable[..., Bench],
    waiting: Callable[[Bench], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tasks, "KEYS_PER_SCAN", 10)
    bench = make_bench(store=PartitionedStore)
    waiting(bench)
    steps: list[str] = []
    run, scan = bench.store.run, bench.redis.scan

    def counted(step: str, ask: Callable[..., Any]) -> Any:
        steps.append(step)
        return ask()

    bench.store.run = lambda verb, *args: counted(verb, lambda: run(verb, *args))
    bench.redis.scan = lambda *args, **options: counted("scan", lambda: scan(*args, **options))
    assert bench.frontier.cancel(1, seconds=3) is False
    assert len([step for step in steps if step != "state"]) <= 3
    assert bench.counts().state == "changing"
    assert bench.frontier.cancel(1) is True
    assert (bench.counts().state, bench.counts().nr) == ("cancelling", 0)


def test_the_lanes_of_a_task_that_runs_are_not_emptied(bench: Bench) -> None:
    """Called by a process that was slow: the task was restored and runs again."""
    bench.open(bench.request("a"))
    [lane] = bench.redis.keys(bench.key("LANE", "*"))
    name = lane.decode().removeprefix(bench.key("LANE"))
    assert bench.store.run("cancel", 0, 1, pack([name])) == -1
    assert bench.store.run("cancel", 0, 2, pack([name])) == -1
    assert len(bench.claim_all()) == 1


def test_what_is_held_or_done_is_not_cancelled_in_its_lane(bench: Bench) -> None:
    """A lane may have leftovers of requests that were completed, or taken, out of it."""
    some = bench.requests(3)
    bench.open(*some)
    [lane] = bench.redis.keys(bench.key("LANE", "*"))
    bench.complete(some[0])
    claimed = bench.claim(1)
    bench.redis.lpush(lane, claimed[0].rid)
    bench.frontier.cancel(1)
    counts = bench.counts()
    assert (counts.nf, counts.cancelled, counts.in_progress) == (1, 1, 1)


def test_a_cancel_of_a_task_that_ends_meanwhile(bench: Bench) -> None:
    """Its last waiting request ends, another process ends the task, and no call raises."""
    bench.open(bench.request("a"))
    end_waiting = bench.frontier._end_waiting

    def and_end(*args: Any) -> bool:
        done: bool = end_waiting(*args)
        bench.frontier.close_tasks([1])
        return done

    bench.frontier._end_waiting = and_end
    assert bench.frontier.cancel(1) is True
    assert bench.frontier.open_tasks() == []


def test_cancel_leaves_other_tasks_alone(bench: Bench) -> None:
    for task in (1, 2):
        bench.open(bench.request("late", task=task, delay=60_000), task=task)
    bench.frontier.cancel(1)
    assert bench.claim_all() == []
    assert (bench.counts(1).cancelled, bench.counts(2).cancelled) == (1, 0)
    assert bench.counts(2).delayed == 1


class Dying(PartitionedStore):
    """Its process dies after a number of scripts."""

    lives = 10**9

    def run(self, verb: str, partition: int, *args: Any) -> Any:
        if self.lives == 0:
            raise KeyboardInterrupt
        self.lives -= 1
        return super().run(verb, partition, *args)


@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize("verb", ["pause", "resume", "cancel"])
def test_a_change_that_was_cut_short_can_be_seen_and_finished(
    make_bench: Callable[..., Bench], verb: str, partitions: int
) -> None:
    """However far it got: the state is "changing" until it is repeated."""
    for lives in range(1, 100):
        bench = make_bench(partitions=partitions, store=Dying)
        bench.redis.flushall()
        hosts = [f"{c}.example" for c in "abcdef"]
        bench.open(*(bench.request(host, host) for host in hosts))
        bench.open(task=2)
        bench.frontier.admit(1, [bench.request(f"late {h}", h, delay=60_000) for h in hosts])
        bench.park(bench.claim(1)[0])
        bench.frontier.pause(1)
        bench.claim_all()
        if verb == "pause":
            bench.frontier.resume(1)
        state = bench.counts().state
        bench.store.lives = lives
        try:
            getattr(bench.frontier, verb)(1)
        except KeyboardInterrupt:
            bench.store.lives = 10**9
            assert bench.counts().state == "changing" != state
            assert bench.counts(2).state == "running"
            assert bench.frontier.audit() == []
            getattr(bench.frontier, verb)(1)
            done = False
        else:
            bench.store.lives = 10**9
            done = True
        after = {"pause": "paused", "resume": "running", "cancel": "cancelling"}[verb]
        assert bench.counts().state == after
        assert len(bench.claim_all()) == {"pause": 0, "resume": 6, "cancel": 0}[verb]
        assert bench.counts().cancelled == (12 if verb == "cancel" else 0)
        if done:
            break
    else:
        raise AssertionError("it never came to an end")
    assert lives > partitions


def test_an_older_change_does_not_end_a_newer_one(bench: Bench) -> None:
    bench.open(bench.request("a"))
    bench.store.run("state", 0, 1, "running", "begin")
    bench.store.run("state", 0, 1, "cancelling", "begin")
    bench.store.run("state", 0, 1, "running", "end")
    assert bench.counts().state == "changing"
    bench.store.run("state", 0, 1, "cancelling", "end")
    assert bench.counts().state == "cancelling"
