"""Causes of blocked workers, as their master judges them from outside; processes are simulated."""

from __future__ import annotations

import selectors
from collections.abc import Iterator
from contextlib import closing
from types import SimpleNamespace

import psutil
import pytest

from crawlframe.conf import Settings
from crawlframe.frontier import Claimed, GivenBack
from crawlframe.node.child_process import Child
from crawlframe.node.master import stalls
from crawlframe.node.master.stalls import (
    KNOWN_AFTER,
    SILENT_AFTER,
    STALL,
    STALL_AGAIN,
    StallMonitor,
)
from crawlframe.node.master.worker_pool import WorkerPool
from crawlframe.node.messages import child_line
from crawlframe.node.running_marks import LOOP, STEPS, THREADS, RunningMarks
from crawlframe.request.request import Request
from tests.node.parts import NO_SERVICES

A, B, C = (bytes([n]) * 16 for n in range(1, 4))
RECORD = Request("http://a.example/").encode()

Given = list[GivenBack]


class World:
    """One worker with three requests, its process and the time."""

    def __init__(self, pool: WorkerPool, marks: RunningMarks, child: Child, given: Given) -> None:
        self.pool, self.marks, self.child, self.given = pool, marks, child, given
        self.stall_monitor = StallMonitor(pool, given.extend)
        self.now = child.born
        self.worked = self.worked_in_loop = 0.0
        self.status = psutil.STATUS_SLEEPING

    def pass_by(self, seconds: float, *, works: str = "") -> list[bytes]:
        """Lets ``seconds`` pass, with work in the "loop", a "thread" or none. Returns the kept
        rids."""
        self.stall_monitor.tick(self.now)
        self.now += seconds
        self.worked += seconds if works else 0.0
        self.worked_in_loop += seconds if works == "loop" else 0.0
        self.stall_monitor.tick(self.now)
        return sorted(self.child.held) if self.child.relieved else []


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    given: Given = []
    pool = WorkerPool(Settings(), NO_SERVICES, selectors.DefaultSelector())
    marks = RunningMarks(1, threads=2)
    ours, theirs = child_line()
    with closing(ours), closing(theirs):
        child = Child("worker", 1, ours, marks, marks.take())
        child.ready = True
        for rid in (A, B, C):
            child.hold(Claimed(rid, 1, "a.example", 0, 0, RECORD))
        pool.members.append(child)
        world = World(pool, marks, child, given)
        threads = [SimpleNamespace(id=1), SimpleNamespace(id=2)]
        process = SimpleNamespace(pid=1, status=lambda: world.status, threads=lambda: threads)
        monkeypatch.setattr(stalls, "_worked", lambda _: _worked(world))
        monkeypatch.setattr(psutil, "Process", lambda pid: process)
        yield world


def _worked(world: World) -> stalls._Worked:
    return stalls._Worked(world.worked, world.worked_in_loop)


@pytest.mark.parametrize("works", ["loop", ""], ids=["computes", "waits"])
def test_a_callback_in_the_event_loop(world: World, works: str) -> None:
    world.marks.write(0, LOOP, A)
    world.marks.write(0, THREADS, B)
    assert world.pass_by(STALL - 0.2, works=works) == []
    assert world.pass_by(0.3, works=works) == [A]
    assert [one.rid for one in world.given] == [B, C]
    assert world.pool.cpu_wanted == bool(works)


def test_one_that_leaves_the_loop_to_others_in_between(world: World) -> None:
    """However often it is seen there: an async callback that works in short steps."""
    for step in range(1, 20):
        world.marks.write(0, LOOP, A)
        world.marks.write(0, STEPS, step.to_bytes(16))
        assert world.pass_by(0.1, works="loop") == []
    assert world.pass_by(STALL + 0.1, works="loop") == [A]


def test_one_that_waits_for_its_turn_on_a_busy_machine(world: World) -> None:
    world.marks.write(0, LOOP, A)
    world.status = psutil.STATUS_RUNNING
    assert world.pass_by(2 * STALL) == []
    for _ in range(11):  # a tenth of a processor is its share
        world.worked += STALL / 10
        world.worked_in_loop += STALL / 10
        kept = world.pass_by(STALL)
    assert kept == [A]
    assert world.pool.cpu_wanted


def test_a_thread_that_keeps_the_lock_from_a_callback_in_the_event_loop(world: World) -> None:
    world.marks.write(0, LOOP, A)
    world.marks.write(0, THREADS, B)
    assert world.pass_by(STALL + 0.2, works="thread") == [A, B]
    assert [one.rid for one in world.given] == [C]


@pytest.mark.parametrize("works", ["thread", ""], ids=["computes", "waits"])
def test_a_thread_that_keeps_the_lock_from_the_event_loop(world: World, works: str) -> None:
    world.marks.write(0, THREADS, B)
    assert world.pass_by(SILENT_AFTER - 0.5, works=works) == []
    assert world.pass_by(0.6, works=works) == []  # now it is silent
    assert world.pass_by(STALL + 0.1, works=works) == [B]


def test_a_silent_worker_that_waits_for_its_turn_on_a_busy_machine(world: World) -> None:
    world.marks.write(0, THREADS, B)
    world.status = psutil.STATUS_RUNNING
    for _ in range(3):
        assert world.pass_by(SILENT_AFTER) == []


def test_threads_that_leave_the_event_loop_its_time(world: World) -> None:
    world.marks.write(0, THREADS, B)
    for _ in range(10):
        world.child.last_beat = world.now
        assert world.pass_by(1.0, works="thread") == []


def test_who_holds_the_loop_although_known_is_relieved_later(world: World) -> None:
    """A coroutine that blocks would be no better in a thread: each time costs a worker."""
    world.stall_monitor.mark_slow(1, "parse", False, world.now)
    world.now += KNOWN_AFTER + 1
    world.marks.write(0, LOOP, A)
    assert world.pass_by(2 * STALL) == []
    assert world.pass_by(STALL_AGAIN) == [A]


@pytest.mark.parametrize("role", ["cpu", "isolated"])
def test_every_kind_of_worker_but_the_one_that_has_a_single_request(
    world: World, role: str
) -> None:
    world.child.role = role
    world.marks.write(0, LOOP, A)
    assert world.pass_by(2 * STALL) == ([A] if role == "cpu" else [])
