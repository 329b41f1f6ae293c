"""Requests that must run alone; the crew's children are not forked."""

from __future__ import annotations

import selectors
import time
from collections.abc import Iterator
from contextlib import closing
from types import SimpleNamespace

import pytest

from crawlframe.conf import Settings
from crawlframe.frontier import Claim, Claimed
from crawlframe.frontier.records import TaskView
from crawlframe.node.channel import Channel
from crawlframe.node.child_process import Child
from crawlframe.node.master import isolation
from crawlframe.node.master.isolation import LATER, LINE, STALE, Isolation
from crawlframe.node.master.worker_pool import Crew

Given = list[tuple[bytes, str, int]]


@pytest.fixture
def crew() -> Crew:
    return Crew(Settings(workers=1), selectors.DefaultSelector(), lambda *_: None, lambda *_: None)


@pytest.fixture
def deferred() -> Given:
    return []


@pytest.fixture
def ward(crew: Crew, deferred: Given) -> Isolation:
    return Isolation(crew, deferred.extend)


@pytest.fixture
def far() -> Iterator[Channel]:
    """The end of the channel that the lone worker has; ``lone`` is the master's view."""
    ours, theirs = Channel.pair()
    with closing(ours), closing(theirs):
        theirs.near = ours  # type: ignore[attr-defined]
        yield theirs


@pytest.fixture
def lone(crew: Crew, far: Channel) -> Child:
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
    assert ward.take(claim(innocent, suspect, poison)) == [innocent, poison]
    assert ward.held == {suspect.rid}


def test_those_with_which_nodes_die_again_and_again_too(ward: Isolation) -> None:
    for nodes in range(5):
        one = Claimed(bytes([nodes]) * 16, 7, "a.example", 0, nodes, b"")
        assert ward.take(claim(one)) == ([one] if nodes < 3 else [])


def test_poison_says_who_died_with_it() -> None:
    both = Claimed(b"1" * 16, 7, "a.example", 0, 6, b"", 0, 1)
    assert both.poison(5) == "5 nodes and a worker died with this request"
    assert both._replace(kills=0).poison(5) == "6 nodes died with this request"
    assert both.poison(6) == ""


def test_they_run_one_at_a_time(ward: Isolation, lone: Child, far: Channel) -> None:
    ward.take(claim(request(1), request(2)))
    for number in (1, 2):
        ward.turn()
        ward.turn()
        ((kind, requests, views),) = far.receive()
        assert (kind, [Claimed(*one) for one in requests]) == ("run", [request(number)])
        assert views == {7: ["running", 0]}
        assert lone.held.keys() == {request(number).rid}
        lone.settle(request(number).rid)
    ward.turn()
    assert not lone.held


def test_nothing_is_given_to_a_worker_that_leaves(ward: Isolation, lone: Child) -> None:
    lone.retiring_since = 1.0
    ward.take(claim(request(1)))
    ward.turn()
    assert not lone.held
    assert ward.held == {request(1).rid}


def test_a_worker_is_wanted_as_long_as_there_are_any(
    ward: Isolation, lone: Child, crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolation, "IDLE", 0.0)
    ward.turn()
    assert not crew.lone_wanted
    ward.take(claim(request(1)))
    monkeypatch.setattr(isolation, "IDLE", 60.0)
    ward.turn()
    assert crew.lone_wanted  # it runs
    monkeypatch.setattr(isolation, "IDLE", 0.0)
    ward.turn()
    lone.settle(request(1).rid)
    ward.turn()
    assert not crew.lone_wanted


def test_those_without_room_wait_in_the_frontier(ward: Isolation, deferred: Given) -> None:
    ward.take(claim(*map(request, range(LINE + 3))))
    assert ward.held == {request(number).rid for number in range(LINE)}
    late = [request(number) for number in range(LINE, LINE + 3)]
    assert deferred == [(one.rid, one.host, LATER) for one in late]


def test_when_the_node_stops_they_go_back_unblamed(ward: Isolation) -> None:
    ward.take(claim(request(1)))
    assert ward.empty() == [(request(1).rid, "a.example", 0)]
    assert ward.held == set()


def test_what_has_waited_for_long_is_claimed_anew(
    ward: Isolation,
    lone: Child,
    far: Channel,
    deferred: Given,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its task may have been paused or cancelled meanwhile."""
    now = time.monotonic()
    monkeypatch.setattr(isolation, "time", SimpleNamespace(monotonic=lambda: now))
    lone.hold(request(9))
    ward.take(claim(request(1)))
    now += STALE - 0.5
    ward.take(claim(request(2)))
    ward.turn()
    assert deferred == []
    now += 1.0
    lone.settle(request(9).rid)
    ward.turn()
    assert deferred == [(request(1).rid, "a.example", LATER)]
    assert (ward.held, {*lone.held}) == (set(), {request(2).rid})
    ((_, requests, _),) = far.receive()
    assert [Claimed(*one) for one in requests] == [request(2)]
