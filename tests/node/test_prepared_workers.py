"""Workers that are forked before their version is live."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from crawlframe.conf import Settings
from crawlframe.node.child_process import Child
from crawlframe.node.master.template import Template
from crawlframe.node.master.worker_pool import WorkerPool
from crawlframe.node.messages import CodeLoaded, ToChildLine, child_line
from crawlframe.node.running_marks import RunningMarks
from tests.node.parts import NO_SERVICES

WORKERS = 2


class Worker(Child):
    """No process; ``signals`` has what was sent to it."""

    def signal(self, number: int) -> None:
        self.signals = [*getattr(self, "signals", []), number]

    def becomes_ready(self) -> None:
        self.ready, self.credits = True, 8


class NoProcess(Template):
    """A template whose workers are no processes. ``stack`` closes their channels."""

    stack: ExitStack

    def fork(self, role: str, marks: RunningMarks, generation: int) -> Child:
        worker = Worker(role, 0, channel(self.stack))
        worker.origin = self.loaded
        return worker


def channel(stack: ExitStack) -> ToChildLine:
    ours, theirs = child_line()
    stack.callback(ours.close)
    stack.callback(theirs.close)
    return ours


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


@pytest.fixture
def pool(stack: ExitStack) -> WorkerPool:
    selector = stack.enter_context(selectors.DefaultSelector())
    return WorkerPool(Settings(workers=WORKERS), NO_SERVICES, selector)


@pytest.fixture
def template(stack: ExitStack) -> Callable[[str], Template]:
    def make(version: str) -> Template:
        orders = stack.enter_context(socket.socket())
        made = NoProcess(Child("template", 0, channel(stack)), orders)
        made.stack = stack
        made.loaded = CodeLoaded("/spiders", version, version, version, [], {}, [])
        return made

    return make


def ready(pool: WorkerPool) -> list[Worker]:
    found = [child for child in pool.members if isinstance(child, Worker)]
    for worker in found:
        worker.becomes_ready()
    return found


def test_prepared_workers_take_nothing_until_their_version_is_live(
    pool: WorkerPool, template: Callable[[str], Template]
) -> None:
    one, two = template("1"), template("2")
    pool.staff(one, 1)
    old = ready(pool)
    pool.prepare(two, 1)
    pool.prepare(two, 1)
    new = ready(pool)[WORKERS:]
    assert len(new) == WORKERS
    assert pool.workers == old
    assert not any(worker.taking for worker in new)
    pool.staff(one, 1)  # it does not mistake them for older ones
    assert all(worker.staying for worker in (*old, *new))
    assert pool.enlist(two) == new
    assert all(worker.taking for worker in new)
    pool.prepare(None, 1)
    pool.staff(two, 1)
    assert [worker.staying for worker in (*old, *new)] == [False] * 2 + [True] * 2
    assert len(pool.members) == 2 * WORKERS


def test_workers_that_start_when_their_version_goes_live_count(
    pool: WorkerPool, template: Callable[[str], Template]
) -> None:
    one, two = template("1"), template("2")
    pool.staff(one, 1)
    old = ready(pool)
    pool.prepare(two, 1)
    assert pool.enlist(two) == []
    pool.staff(two, 1)
    assert len(pool.members) == 2 * WORKERS
    assert all(worker.staying for worker in old)


def test_workers_that_were_prepared_in_vain_end(
    pool: WorkerPool, template: Callable[[str], Template]
) -> None:
    one, two, three = template("1"), template("2"), template("3")
    pool.staff(one, 1)
    pool.prepare(two, 1)
    vain = pool.members[WORKERS:]
    pool.prepare(three, 1)
    assert all(child.dismissed for child in vain)
    assert len(pool.members) == 3 * WORKERS
    pool.prepare(None, 1)
    assert [child.dismissed for child in pool.members] == [False] * 2 + [True] * 4
    pool.prepare(None, 1)
    assert [len(getattr(child, "signals", [])) for child in pool.members] == [0] * 2 + [1] * 4


def test_missing_workers_do_not_count_prepared_ones(
    pool: WorkerPool, template: Callable[[str], Template]
) -> None:
    pool.staff(template("1"), 1)
    ready(pool)
    pool.prepare(template("2"), 1)
    ready(pool)
    pool.members[0].retiring_since = 0.0
    assert pool.health.missing == 0  # not for long enough
    assert len(pool.workers) == WORKERS
