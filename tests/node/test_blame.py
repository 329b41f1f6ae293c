"""Requests that are held responsible for the death of a worker."""

from __future__ import annotations

import selectors
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from crawlframe.conf import Settings
from crawlframe.frontier import Claimed, GivenBack
from crawlframe.node.child_process import Child
from crawlframe.node.master import blame
from crawlframe.node.master import worker_pool as pool_module
from crawlframe.node.master.blame import Shortage, blamed
from crawlframe.node.master.worker_pool import WorkerPool
from crawlframe.node.messages import child_line
from crawlframe.node.running_marks import LOOP, THREADS, RunningMarks
from tests.node.parts import NO_SERVICES

A, B, C, STRANGER = (bytes([n]) * 16 for n in range(1, 5))
KILLED, CRASHED, FAILED = -signal.SIGKILL, -signal.SIGSEGV, 1


@pytest.fixture
def marks() -> RunningMarks:
    return RunningMarks(1, threads=2)


@pytest.fixture
def worker(marks: RunningMarks) -> Iterator[Child]:
    """A worker that holds three requests."""
    ours, theirs = child_line()
    with closing(ours), closing(theirs):
        child = Child("worker", 1, ours, marks, marks.take())
        for rid in (A, B, C):
            child.hold(Claimed(rid, 1, "a.example", 0, 0, b"", 7))
        yield child


@pytest.mark.parametrize("code", [KILLED, CRASHED, FAILED, None])
def test_those_whose_callbacks_were_running(
    worker: Child, marks: RunningMarks, code: int | None
) -> None:
    marks.write(0, LOOP, A)
    assert blamed(worker, code, lack_of_memory=False) == {A}
    marks.write(0, THREADS, C)
    assert blamed(worker, code, lack_of_memory=False) == {A, C}
    assert worker.requests_to_release({A, C}) == [
        GivenBack(A, "a.example", 7, 1),
        GivenBack(B, "a.example", 7),
        GivenBack(C, "a.example", 7, 1),
    ]


def test_all_when_no_callback_ran(worker: Child) -> None:
    assert blamed(worker, CRASHED, lack_of_memory=False) == {A, B, C}
    assert blamed(worker, FAILED, lack_of_memory=False) == {A, B, C}


def test_nobody_for_a_kill_from_outside_while_no_callback_ran(worker: Child) -> None:
    assert blamed(worker, KILLED, lack_of_memory=False) == frozenset()


def test_a_kill_for_lack_of_memory_is_not_from_outside(worker: Child) -> None:
    assert blamed(worker, KILLED, lack_of_memory=True) == {A, B, C}


def test_nor_is_ours_of_a_worker_that_stood_still(worker: Child) -> None:
    worker.overdue = True
    assert blamed(worker, KILLED, lack_of_memory=False) == {A, B, C}


def test_a_dismissed_worker_blames_no_request(worker: Child, marks: RunningMarks) -> None:
    """A reload or a stop is not the fault of a callback that takes long."""
    marks.write(0, LOOP, A)
    worker.dismissed = True
    assert blamed(worker, KILLED, lack_of_memory=False) == frozenset()


def test_nobody_when_it_ended_as_it_should(worker: Child, marks: RunningMarks) -> None:
    marks.write(0, LOOP, A)
    assert blamed(worker, 0, lack_of_memory=False) == frozenset()


def test_nobody_beside_a_callback_whose_request_others_have(
    worker: Child, marks: RunningMarks
) -> None:
    marks.write(0, LOOP, STRANGER)
    assert blamed(worker, CRASHED, lack_of_memory=False) == frozenset()


def test_a_lack_of_memory_is_seen_for_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several workers may be killed at one time, and are handled one after the other."""
    events = tmp_path / "memory.events"
    events.write_text("low 0\noom 3\noom_kill 2\n")
    shortage = Shortage([tmp_path / "missing", events])
    assert not shortage.is_here()
    events.write_text("low 0\noom 4\noom_kill 4\n")
    assert [shortage.is_here() for _ in range(3)] == [True] * 3
    monkeypatch.setattr(blame, "SHORTAGE_SECONDS", 0.0)
    assert not shortage.is_here()


def test_an_earlier_lack_of_memory_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever died of it was not a worker that held something."""
    events = tmp_path / "memory.events"
    events.write_text("oom_kill 2\n")
    now = [1000.0]
    monkeypatch.setattr(blame, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(pool_module, "Shortage", lambda: Shortage([events]))
    pool = WorkerPool(Settings(), NO_SERVICES, selectors.DefaultSelector())
    pool.check()
    events.write_text("oom_kill 3\n")
    now[0] += blame.POLL_EVERY
    pool.check()
    assert pool._shortage.is_here()
    now[0] += blame.SHORTAGE_SECONDS
    assert not pool._shortage.is_here()


def test_where_the_kernel_tells_nothing_memory_is_never_short(tmp_path: Path) -> None:
    assert not Shortage([tmp_path / "missing"]).is_here()


def test_this_machine_has_a_count() -> None:
    assert Shortage().is_here() is False
