"""Assigning claimed requests, and the master's records of them; its children are not forked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from crawlframe.frontier import Claimed
from crawlframe.node.child_process import Child
from crawlframe.node.master.stalls import assign
from crawlframe.node.messages import child_line
from crawlframe.node.running_marks import RunningMarks

NewChild = Callable[[int, int], Child]


@pytest.fixture
def child() -> Iterator[NewChild]:
    """Makes children by pid and credits."""
    with ExitStack() as stack:

        def make(pid: int, credits: int) -> Child:
            ours, theirs = child_line()
            stack.callback(theirs.close)
            marks = RunningMarks(1, threads=2)
            made = Child("worker", pid, ours, marks, marks.take())
            stack.callback(made.forget)
            made.credits = credits
            return made

        yield make


def request(number: int, host: str = "a.example", attempts: int = 0) -> Claimed:
    return Claimed(number.to_bytes(16, "big"), 1, host, attempts, 0, b"")


def test_nobody_gets_more_than_its_credits(child: NewChild) -> None:
    few, many = child(1, 2), child(2, 8)
    parcels = assign([request(n) for n in range(10)], [few, many])
    assert {one.pid: len(requests) for one, requests in parcels} == {1: 2, 2: 8}
    assert (few.credits, many.credits) == (0, 0)


def test_a_batch_claimed_again_may_be_larger_than_the_credits(child: NewChild) -> None:
    left = child(1, 3)  # the other worker died before the lost answer was asked for again
    ((_, requests),) = assign([request(n) for n in range(10)], [left])
    assert len(requests) == len(left.held) == 10
    assert not left.taking


def test_a_late_word_of_the_first_try_does_not_settle_the_second(child: NewChild) -> None:
    worker = child(1, 8)
    first, second = request(1), request(1, attempts=1)
    worker.hold(first)
    worker.hold(second)
    worker.settle(first.rid)
    assert worker.held == {first.rid: second}
    worker.settle(second.rid)
    assert worker.held == {}
    worker.settle(second.rid)  # a request that it never held changes nothing
    worker.hold(first)
    assert worker.held == {first.rid: first}
