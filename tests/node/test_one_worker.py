"""Tasks that run in one worker, as a master hands them out; the pool's children are not forked."""

from __future__ import annotations

import selectors
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest

from crawlframe.conf import Settings
from crawlframe.frontier import Claim, Claimed
from crawlframe.frontier.client.records import TaskView
from crawlframe.node.child_process import Child
from crawlframe.node.master.one_worker import PRUNE_EVERY, OneWorker, apart_of
from crawlframe.node.master.worker_pool import WorkerPool
from crawlframe.node.messages import FromChildLine, Run, child_line
from tests.node.parts import NO_SERVICES

PINNED, OTHER = 7, 8  # tasks; only the first is pinned
VIEWS = {PINNED: TaskView("running", 0, True), OTHER: TaskView("running", 0)}


class Node:
    """``returned``: rids that were given back."""

    def __init__(self) -> None:
        self.pool = WorkerPool(Settings(workers=2), NO_SERVICES, selectors.DefaultSelector())
        self.returned: list[bytes] = []
        self.one_worker = OneWorker(
            self.pool, lambda requests: self.returned.extend(one.rid for one in requests)
        )

    def take(self, *requests: Claimed) -> list[Claimed]:
        claim = Claim(0, [*requests], {one.task: VIEWS[one.task] for one in requests})
        self.one_worker.take(claim)
        return claim.requests


@pytest.fixture
def node() -> Node:
    return Node()


AddWorker = Callable[[int, int], tuple[Child, FromChildLine]]


@pytest.fixture
def add(node: Node) -> Iterator[AddWorker]:
    """Adds a worker: ``add(pid, credits)``."""
    with ExitStack() as stack:

        def add(pid: int, credits: int) -> tuple[Child, FromChildLine]:
            ours, theirs = child_line()
            for end in (ours, theirs):
                stack.enter_context(closing(end))
            child = Child("worker", pid, ours)
            child.ready, child.credits = True, credits
            node.pool.members.append(child)
            return child, theirs

        yield add


def request(number: int, task: int = PINNED) -> Claimed:
    return Claimed(number.to_bytes(16, "big"), task, f"{number}.example", 0, 0, b"")


def test_apart_each_task_has_a_worker_that_takes_nothing_else(add: AddWorker, node: Node) -> None:
    node.one_worker = OneWorker(node.pool, lambda requests: None, apart=2)
    assert node.one_worker.servable({9, PINNED, 12}) == [PINNED, 9]
    node.one_worker.serve(PINNED)
    assert node.one_worker.servable({9, 12}) == [9]
    assert [*node.pool.apart] == [PINNED]
    add(1, 5)
    assert node.one_worker.rooms() == {PINNED: 0}
    own, far = add(2, 3)
    own.role = f"task {PINNED}"
    assert own.works
    assert node.one_worker.rooms() == {PINNED: 3}
    assert node.pool.workers != [own]
    theirs = [request(1)]
    assert node.take(*theirs) == []
    assert far.receive() == [Run(theirs, {PINNED: VIEWS[PINNED]})]
    node.one_worker.prune(0.5, lambda: [])
    assert [*node.pool.apart] == []
    assert apart_of(Settings(workers=3, scrapy="/shop")) == 12
    assert apart_of(Settings(workers=3)) == 0


def test_all_its_requests_go_to_one_worker(node: Node, add: AddWorker) -> None:
    add(1, 5)
    child, far = add(2, 10)
    node.one_worker.serve(PINNED)
    assert node.one_worker.rooms() == {PINNED: 10}
    theirs = [request(n) for n in range(4)]
    other = request(9, OTHER)
    assert node.take(*theirs, other) == [other]
    assert far.receive() == [Run(theirs, {PINNED: VIEWS[PINNED]})]
    assert (child.credits, len(child.held)) == (6, 4)
    assert node.one_worker.rooms() == {PINNED: 6}


def test_several_tasks_are_spread(node: Node, add: AddWorker) -> None:
    add(1, 10)
    add(2, 9)
    for task in (1, 2, 3, 4):
        node.one_worker.serve(task)
    assert sorted(node.one_worker.rooms().values()) == [9, 9, 10, 10]


def test_a_full_worker_has_no_room_and_keeps_its_task(node: Node, add: AddWorker) -> None:
    child, _ = add(1, 3)
    node.one_worker.serve(PINNED)
    node.take(*[request(n) for n in range(3)])
    add(2, 10)
    assert node.one_worker.rooms() == {PINNED: 0}
    child.report(2, [request(0).rid, request(1).rid])
    assert node.one_worker.rooms() == {PINNED: 2}


@pytest.mark.parametrize("how", ["retires", "is relieved"])
def test_the_next_begins_when_the_last_request_is_settled(
    node: Node, add: AddWorker, how: str
) -> None:
    child, _ = add(1, 3)
    node.one_worker.serve(PINNED)
    node.take(request(1))
    add(2, 10)
    if how == "retires":
        child.retiring_since = 1.0
    else:
        child.relieved = True
    assert node.one_worker.rooms() == {PINNED: 0}
    assert node.take(request(2)) == []
    assert node.returned == [request(2).rid]
    child.report(0, [request(1).rid])
    assert node.one_worker.rooms() == {PINNED: 10}


def test_the_next_begins_when_the_worker_is_dead(node: Node, add: AddWorker) -> None:
    child, _ = add(1, 3)
    node.one_worker.serve(PINNED)
    node.take(request(1))
    node.pool.members.remove(child)
    assert node.one_worker.rooms() == {PINNED: 0}  # no worker is there
    assert node.take(request(2)) == []
    assert node.returned == [request(2).rid]
    add(2, 10)
    assert node.one_worker.rooms() == {PINNED: 10}


def test_a_batch_that_is_claimed_again_finds_its_worker(node: Node, add: AddWorker) -> None:
    """The answer was lost, and with it that the task is served."""
    _, far = add(1, 3)
    assert node.take(request(1)) == []
    assert far.receive() == [Run([request(1)], {PINNED: VIEWS[PINNED]})]


def test_tasks_that_have_ended_are_forgotten(node: Node, add: AddWorker) -> None:
    add(1, 3)
    looks: list[float] = []

    def read(now: float) -> Callable[[], list[int] | None]:
        def look() -> list[int] | None:
            looks.append(now)
            return [OTHER] if now > PRUNE_EVERY else None

        return look

    node.one_worker.prune(0.0, read(0.0))
    assert looks == []  # there is nothing to look for
    for task in (PINNED, OTHER):
        node.one_worker.serve(task)
    for now in (1.0, 2.0, 1.0 + PRUNE_EVERY):
        node.one_worker.prune(now, read(now))
    assert looks == [1.0, 1.0 + PRUNE_EVERY]
    assert [*node.one_worker.rooms()] == [OTHER]
    node.one_worker.clear()
    assert node.one_worker.rooms() == {}


def test_other_tasks_cost_nothing(node: Node, add: AddWorker) -> None:
    add(1, 3)
    others = [request(n, OTHER) for n in range(3)]
    assert node.take(*others) == others
    assert node.one_worker.rooms() == {}
