"""Requests that must run alone; the pool's children are not forked."""

from __future__ import annotations

import selectors
from collections.abc import Iterator
from contextlib import closing

import pytest

from crawlframe.conf import Settings
from crawlframe.frontier import Claim, Claimed, GivenBack
from crawlframe.frontier.client.records import TaskView
from crawlframe.node.child_process import Child
from crawlframe.node.master.isolation import IDLE_FOR, LINE, RECLAIM_MS, STALE_SECONDS, Isolation
from crawlframe.node.master.worker_pool import WorkerPool
from crawlframe.node.messages import FromChildLine, Run, child_line
from tests.node.parts import NO_SERVICES

NOW = 1000.0  # seconds

Given = list[GivenBack]


@pytest.fixture
def pool() -> WorkerPool:
    return WorkerPool(Settings(workers=1), NO_SERVICES, selectors.DefaultSelector())


@pytest.fixture
def deferred() -> Given:
    return []


@pytest.fixture
def queue(pool: WorkerPool, deferred: Given) -> Isolation:
    return Isolation(pool, deferred.extend)


@pytest.fixture
def far() -> Iterator[FromChildLine]:
    """The isolated worker's end of the channel; ``isolated`` is the master's view."""
    ours, theirs = child_line()
    with closing(ours), closing(theirs):
        theirs.near = ours  # type: ignore[attr-defined]
        yield theirs


@pytest.fixture
def isolated(pool: WorkerPool, far: FromChildLine) -> Child:
    child = Child("isolated", 1, far.near)  # type: ignore[attr-defined]
    child.ready = True
    pool.members.append(child)
    return child


def request(number: int, kills: int = 1) -> Claimed:
    return Claimed(number.to_bytes(16, "big"), 7, "a.example", 0, kills, b"", 0, kills)


def claim(*requests: Claimed) -> Claim:
    return Claim(-1, [*requests], {7: TaskView("running", 0)})


def test_only_blamed_requests_are_isolated(queue: Isolation) -> None:
    innocent, suspect, poison = request(1, 0), request(2), request(3, 2)
    assert queue.take(claim(innocent, suspect, poison), NOW) == [innocent, poison]
    assert queue.held == {suspect.rid}


def test_those_with_which_nodes_die_again_and_again_too(queue: Isolation) -> None:
    for nodes in range(5):
        one = Claimed(bytes([nodes]) * 16, 7, "a.example", 0, nodes, b"")
        assert queue.take(claim(one), NOW) == ([one] if nodes < 3 else [])


def test_poison_counts_the_nodes_and_workers_that_died() -> None:
    both = Claimed(b"1" * 16, 7, "a.example", 0, 6, b"", 0, 1)
    assert both.poison(5) == "5 nodes and a worker died with this request"
    assert both._replace(kills=0).poison(5) == "6 nodes died with this request"
    assert both.poison(6) == ""


def test_they_run_one_at_a_time(queue: Isolation, isolated: Child, far: FromChildLine) -> None:
    queue.take(claim(request(1), request(2)), NOW)
    for number in (1, 2):
        queue.tick(NOW)
        queue.tick(NOW)
        assert far.receive() == [Run([request(number)], {7: TaskView("running", 0)})]
        assert isolated.held.keys() == {request(number).rid}
        isolated.settle(request(number).rid)
    queue.tick(NOW)
    assert not isolated.held


def test_nothing_is_given_to_a_worker_that_leaves(queue: Isolation, isolated: Child) -> None:
    isolated.retiring_since = 1.0
    queue.take(claim(request(1)), NOW)
    queue.tick(NOW)
    assert not isolated.held
    assert queue.held == {request(1).rid}


def test_a_worker_is_wanted_as_long_as_there_are_any(
    queue: Isolation, isolated: Child, pool: WorkerPool
) -> None:
    queue.tick(NOW)
    assert not pool.isolated_wanted
    queue.take(claim(request(1)), NOW)
    queue.tick(NOW)
    queue.tick(NOW + 2 * IDLE_FOR)
    assert pool.isolated_wanted  # it runs
    isolated.settle(request(1).rid)
    queue.tick(NOW + 2.5 * IDLE_FOR)
    assert pool.isolated_wanted
    queue.tick(NOW + 3 * IDLE_FOR)
    assert not pool.isolated_wanted


def test_those_without_room_wait_in_the_frontier(queue: Isolation, deferred: Given) -> None:
    queue.take(claim(*map(request, range(LINE + 3))), NOW)
    assert queue.held == {request(number).rid for number in range(LINE)}
    late = [request(number) for number in range(LINE, LINE + 3)]
    assert deferred == [one.given_back(RECLAIM_MS) for one in late]


def test_when_the_node_stops_they_go_back_unblamed(queue: Isolation) -> None:
    queue.take(claim(request(1)), NOW)
    assert queue.empty() == [request(1).given_back()]
    assert queue.held == set()


def test_what_has_waited_for_long_is_claimed_anew(
    queue: Isolation, isolated: Child, far: FromChildLine, deferred: Given
) -> None:
    """Its task may have been paused or cancelled meanwhile."""
    isolated.hold(request(9))
    queue.take(claim(request(1)), NOW)
    later = NOW + STALE_SECONDS - 0.5
    queue.take(claim(request(2)), later)
    queue.tick(later)
    assert deferred == []
    isolated.settle(request(9).rid)
    queue.tick(later + 1.0)
    assert deferred == [request(1).given_back(RECLAIM_MS)]
    assert (queue.held, {*isolated.held}) == (set(), {request(2).rid})
    assert far.receive() == [Run([request(2)], {7: TaskView("running", 0)})]
