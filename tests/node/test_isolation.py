"""Requests that must run alone; the crew's children are not forked."""

from __future__ import annotations

import selectors
from collections.abc import Iterator
from contextlib import closing

import pytest

from crawlframe.conf import Settings
from crawlframe.frontier import Claim, Claimed
from crawlframe.frontier.records import TaskView
from crawlframe.node.child_process import Child
from crawlframe.node.master.isolation import IDLE, LATER, LINE, STALE, Isolation
from crawlframe.node.master.worker_pool import Crew
from crawlframe.node.messages import FromChildLine, Run, child_line
from tests.node.parts import NO_SERVICES

NOW = 1000.0  # seconds

Given = list[tuple[bytes, str, int]]


@pytest.fixture
def crew() -> Crew:
    return Crew(Settings(workers=1), NO_SERVICES, selectors.DefaultSelector())


@pytest.fixture
def deferred() -> Given:
    return []


@pytest.fixture
def ward(crew: Crew, deferred: Given) -> Isolation:
    return Isolation(crew, deferred.extend)


@pytest.fixture
def far() -> Iterator[FromChildLine]:
    """The end of the channel that the lone worker has; ``lone`` is the master's view."""
    ours, theirs = child_line()
    with closing(ours), closing(theirs):
        theirs.near = ours  # type: ignore[attr-defined]
        yield theirs


@pytest.fixture
def lone(crew: Crew, far: FromChildLine) -> Child:
    child = Child("lone", 1, far.near)  # type: ignore[attr-defined]
    child.ready = True
    crew.members.append(child)
    return child


def request(number: int, kills: int = 1) -> Claimed:
    return Claimed(number.to_bytes(16, "big"), 7, "a.example", 0, kills, b"", 0, kills)


def claim(*requests: Claimed) -> Claim:
    return Claim(-1, [*requests], {7: TaskView("running", 0)})


def test_only_those_that_are_blamed_are_taken_in(ward: Isolation) -> None:
    innocent, suspect, poison = request(1, 0), request(2), request(3, 2)
    assert ward.take(claim(innocent, suspect, poison), NOW) == [innocent, poison]
    assert ward.held == {suspect.rid}


def test_those_with_which_nodes_die_again_and_again_too(ward: Isolation) -> None:
    for nodes in range(5):
        one = Claimed(bytes([nodes]) * 16, 7, "a.example", 0, nodes, b"")
        assert ward.take(claim(one), NOW) == ([one] if nodes < 3 else [])


def test_poison_says_who_died_with_it() -> None:
    both = Claimed(b"1" * 16, 7, "a.example", 0, 6, b"", 0, 1)
    assert both.poison(5) == "5 nodes and a worker died with this request"
    assert both._replace(kills=0).poison(5) == "6 nodes died with this request"
    assert both.poison(6) == ""


def test_they_run_one_at_a_time(ward: Isolation, lone: Child, far: FromChildLine) -> None:
    ward.take(claim(request(1), request(2)), NOW)
    for number in (1, 2):
        ward.turn(NOW)
        ward.turn(NOW)
        assert far.receive() == [Run([request(number)], {7: TaskView("running", 0)})]
        assert lone.held.keys() == {request(number).rid}
        lone.settle(request(number).rid)
    ward.turn(NOW)
    assert not lone.held


def test_nothing_is_given_to_a_worker_that_leaves(ward: Isolation, lone: Child) -> None:
    lone.retiring_since = 1.0
    ward.take(claim(request(1)), NOW)
    ward.turn(NOW)
    assert not lone.held
    assert ward.held == {request(1).rid}


def test_a_worker_is_wanted_as_long_as_there_are_any(
    ward: Isolation, lone: Child, crew: Crew
) -> None:
    ward.turn(NOW)
    assert not crew.lone_wanted
    ward.take(claim(request(1)), NOW)
    ward.turn(NOW)
    ward.turn(NOW + 2 * IDLE)
    assert crew.lone_wanted  # it runs
    lone.settle(request(1).rid)
    ward.turn(NOW + 2.5 * IDLE)
    assert crew.lone_wanted
    ward.turn(NOW + 3 * IDLE)
    assert not crew.lone_wanted


def test_those_without_room_wait_in_the_frontier(ward: Isolation, deferred: Given) -> None:
    ward.take(claim(*map(request, range(LINE + 3))), NOW)
    assert ward.held == {request(number).rid for number in range(LINE)}
    late = [request(number) for number in range(LINE, LINE + 3)]
    assert deferred == [(one.rid, one.host, LATER) for one in late]


def test_when_the_node_stops_they_go_back_unblamed(ward: Isolation) -> None:
    ward.take(claim(request(1)), NOW)
    assert ward.empty() == [(request(1).rid, "a.example", 0)]
    assert ward.held == set()


def test_what_has_waited_for_long_is_claimed_anew(
    ward: Isolation, lone: Child, far: FromChildLine, deferred: Given
) -> None:
    """Its task may have been paused or cancelled meanwhile."""
    lone.hold(request(9))
    ward.take(claim(request(1)), NOW)
    later = NOW + STALE - 0.5
    ward.take(claim(request(2)), later)
    ward.turn(later)
    assert deferred == []
    lone.settle(request(9).rid)
    ward.turn(later + 1.0)
    assert deferred == [(request(1).rid, "a.example", LATER)]
    assert (ward.held, {*lone.held}) == (set(), {request(2).rid})
    assert far.receive() == [Run([request(2)], {7: TaskView("running", 0)})]
