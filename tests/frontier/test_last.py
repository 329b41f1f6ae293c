"""The last request of a task: held back until nothing else is left, whatever happens meanwhile."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from crawlframe.frontier.client.scripts import LUA
from crawlframe.request.request import HOLD_MS, end_admission
from tests.frontier.bench import Bench


@pytest.fixture(params=[1, 3])
def bench(request: Any, make_bench: Callable[..., Bench]) -> Bench:
    return make_bench(partitions=request.param)


def last(bench: Bench, task: int = 1) -> Any:
    admission = end_admission(task)
    bench.name_of[admission.rid] = "last"
    return admission


def claimed(bench: Bench) -> list[str]:
    return sorted(bench.names(bench.claim_all()))


def test_it_waits_for_all_others(bench: Bench) -> None:
    bench.open(bench.request("a"), last(bench))
    assert not bench.frontier.begin_last(1)
    (a,) = bench.claim_all()
    assert bench.names([a]) == ["a"]
    assert not bench.frontier.begin_last(1)
    links = [bench.request(name, f"{name}.example") for name in "bcd"]
    bench.frontier.complete([bench.completion(a, *links)])
    assert bench.counts().nr == 4
    held = bench.claim_all()
    assert sorted(bench.names(held)) == ["b", "c", "d"]
    for n, request in enumerate(held):
        assert not bench.counts().may_be_last
        assert bench.frontier.holds_last(1)
        bench.frontier.complete([bench.completion(request, failed=n == 1)])
    assert bench.counts().may_be_last
    assert bench.claim_all() == []
    assert bench.frontier.begin_last(1)
    assert not bench.frontier.begin_last(1)
    assert not bench.frontier.holds_last(1)
    (end,) = bench.claim_all()
    assert (bench.names([end]), end.record) == (["last"], last(bench).record)
    assert bench.frontier.complete([bench.completion(end)]) == {1}
    assert bench.counts().nr == 0
    bench.frontier.close_tasks([1])
    assert bench.frontier.open_tasks() == []


def test_the_caller_that_completes_all_others_learns_it(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench()
    bench.open(bench.request("a"), bench.request("b"), last(bench))
    a, b = bench.claim_all()
    assert bench.frontier.complete([bench.completion(a)]) == set()
    assert bench.frontier.complete([bench.completion(b)]) == {1}


def test_a_delayed_retry_is_not_taken_for_it(bench: Bench) -> None:
    bench.open(bench.request("a"))
    (a,) = bench.claim_all()
    bench.frontier.retry(1, [a.given_back(60_000)])
    assert bench.counts().may_be_last
    assert not bench.frontier.holds_last(1)
    assert not bench.frontier.begin_last(1)
    assert bench.counts().delayed == 1


def test_a_task_without_one_and_an_unknown_task_are_left_alone(bench: Bench) -> None:
    bench.open(bench.request("a"))
    assert not bench.frontier.begin_last(1)
    assert not bench.frontier.begin_last(2)


def test_a_cancel_spares_it(bench: Bench) -> None:
    late = bench.request("late", "late.example", delay=60_000)
    bench.open(bench.request("a"), bench.request("b", "b.example"), late, last(bench))
    (a,) = bench.claim(1)
    bench.frontier.cancel(1)
    assert bench.counts().nr == 2
    assert bench.frontier.holds_last(1)
    bench.frontier.complete([bench.completion(a, bench.request("new", "new.example"))])
    assert (bench.counts().nr, bench.counts().cancelled) == (1, 3)
    assert bench.frontier.begin_last(1)
    bench.frontier.cancel(1)  # a steward continues with a last request that it has seen before
    (end,) = bench.claim_all()
    assert bench.names([end]) == ["last"]
    bench.frontier.release(1, [end.given_back()])
    bench.frontier.cancel(1)
    assert claimed(bench) == ["last"]


def test_it_is_held_back_also_when_a_cancelled_task_is_restored(bench: Bench) -> None:
    bench.open(bench.request("a"))
    bench.claim_all()
    bench.frontier.cancel(1)
    bench.frontier.admit(1, [last(bench), bench.request("b")])
    assert (bench.counts().nr, bench.counts().cancelled) == (2, 1)
    assert bench.frontier.holds_last(1)


def test_a_paused_task_keeps_it(bench: Bench) -> None:
    bench.open(bench.request("a"), last(bench))
    (a,) = bench.claim_all()
    bench.frontier.pause(1)
    bench.frontier.complete([bench.completion(a)])
    assert bench.frontier.begin_last(1)
    assert bench.claim_all() == []
    bench.frontier.resume(1)
    assert claimed(bench) == ["last"]


def test_it_is_given_again_when_its_node_dies(bench: Bench) -> None:
    bench.open(last(bench))
    assert bench.frontier.begin_last(1)
    assert claimed(bench) == ["last"]
    bench.leases.replay(1)
    bench.sequences[2] = 0
    assert bench.names(bench.claim_all(generation=2)) == ["last"]


def test_it_needs_no_room_of_its_own_below_a_page_limit(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench()
    bench.open(bench.request("a"), last(bench), page_limit=3)
    (a,) = bench.claim_all()
    bench.frontier.complete([bench.completion(a, bench.request("b"), bench.request("c"))])
    assert (bench.counts().na, bench.counts().limited) == (3, 1)
    assert claimed(bench) == ["b"]


def test_a_task_of_parked_requests_is_stuck_with_it(bench: Bench) -> None:
    bench.open(bench.request("a"), last(bench))
    (a,) = bench.claim_all()
    assert bench.frontier.standstill()[0] is None
    bench.frontier.park(1, [a.given_back("gone")])
    assert set(bench.frontier.standstill()[0] or {}) == {1}


def test_a_retry_that_waits_beside_parked_requests_is_not_stuck(bench: Bench) -> None:
    bench.open(bench.request("a"), bench.request("b"))
    a, b = bench.claim_all()
    bench.frontier.park(1, [a.given_back("gone")])
    bench.frontier.retry(1, [b.given_back(60_000)])
    assert bench.frontier.standstill()[0] is None


def test_scripts_and_python_agree_for_how_long() -> None:
    found = re.search(r"^local HELD = (\d+)", (LUA / "_shared.lua").read_text(), re.MULTILINE)
    assert found
    assert int(found[1]) == HOLD_MS
