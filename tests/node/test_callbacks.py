"""Callbacks: their results, their threads, and the marks meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from crawlframe.conf import Settings
from crawlframe.node.running_marks import LOOP, RunningMarks
from crawlframe.node.worker.crawl.callbacks import SLOW_SECONDS, Call, Callbacks

RID = b"r" * 16


class Desk:
    """Callbacks of one worker with a place in shared memory."""

    def __init__(self, deadline: float = 60) -> None:
        self.marks = RunningMarks(1, threads=4)
        place = self.place = self.marks.take()
        settings = Settings(concurrency=4, deadline=deadline)
        self.callbacks = Callbacks(settings, lambda slot, rid: self.marks.write(place, slot, rid))
        self.taken: list[Any] = []

    async def run(self, function: Callable[[], Any], name: str = "parse", rid: bytes = RID) -> None:
        await self.callbacks.run(Call(1, name, rid, function, self.taken.append))

    @property
    def marked(self) -> frozenset[bytes]:
        return self.marks.running(self.place)


def generator() -> Iterator[int]:
    yield 1
    yield 2


async def coroutine() -> list[int]:
    await asyncio.sleep(0)
    return [1, 2]


async def async_generator() -> AsyncIterator[int]:
    yield 1
    await asyncio.sleep(0)
    yield 2


def where() -> list[str]:
    return [threading.current_thread().name]


@pytest.mark.parametrize(
    ("function", "taken"),
    [
        (lambda: None, [None]),
        (lambda: {"a": 1}, [{"a": 1}]),
        (lambda: [1, 2], [1, 2]),
        (generator, [1, 2]),
        (coroutine, [1, 2]),
        (async_generator, [1, 2]),
    ],
)
@pytest.mark.parametrize("computes", [None, False, True])
def test_results_of_every_kind_of_callback_are_taken(
    function: Callable[[], Any], taken: list[Any], computes: bool | None
) -> None:
    async def main() -> Desk:
        desk = Desk()
        if computes is not None:
            desk.callbacks.expect(1, "parse", computes)
        await desk.run(function)
        return desk

    desk = asyncio.run(main())
    assert desk.taken == taken
    assert not desk.marked


def test_one_that_was_slow_leaves_the_event_loop() -> None:
    async def main() -> Desk:
        desk = Desk()
        await desk.run(where)
        await desk.run(lambda: time.sleep(SLOW_SECONDS * 1.5))
        await desk.run(where)
        await desk.run(where, name="another")
        return desk

    first, _, second, third = asyncio.run(main()).taken
    assert first == third == "MainThread"
    assert second.startswith("callback")


def test_slow_ones_wait_side_by_side() -> None:
    async def main() -> Desk:
        desk = Desk()
        desk.callbacks.expect(1, "parse", computes=False)
        together = threading.Barrier(4)  # which no one passes alone
        rids = [bytes([n]) * 16 for n in range(1, 5)]
        marked: list[frozenset[bytes]] = []

        def wait() -> None:
            marked.append(desk.marked)
            together.wait(timeout=20)

        await asyncio.gather(*(desk.run(wait, rid=rid) for rid in rids))
        assert max(marked, key=len) <= frozenset(rids)
        assert all(marked)
        return desk

    desk = asyncio.run(main())
    assert desk.taken == [None] * 4
    assert not desk.marked


def test_computing_ones_take_turns_but_not_for_ever() -> None:
    async def main() -> list[str]:
        desk = Desk()
        desk.callbacks.expect(1, "parse", computes=True)
        freed = threading.Event()
        seen: list[str] = []

        def long() -> None:
            seen.append("long begins")
            freed.wait(timeout=20)
            seen.append("long ends")

        def short() -> None:
            seen.append("short")
            freed.set()

        await asyncio.gather(desk.run(long), desk.run(short))
        await desk.run(lambda: seen.append("later"))
        return seen

    assert asyncio.run(main()) == ["long begins", "short", "long ends", "later"]


def nothing() -> None:
    next(iter(()))


@pytest.mark.parametrize("computes", [None, False])
def test_stop_iteration_is_an_error_like_others(computes: bool | None) -> None:
    async def main() -> None:
        desk = Desk()
        if computes is not None:
            desk.callbacks.expect(1, "parse", computes)
        await desk.run(nothing)

    with pytest.raises(RuntimeError, match="StopIteration") as caught:
        asyncio.run(main())
    assert caught.traceback[-1].name == "nothing"


def test_each_step_of_a_coroutine_is_counted() -> None:
    desk = Desk()
    seen: list[bytes] = []

    async def callback() -> None:
        for _ in range(3):
            seen.append(desk.marks.steps(desk.place))
            await asyncio.sleep(0)

    asyncio.run(desk.run(callback))
    assert len({*seen, bytes(16)}) == 4


def test_a_coroutine_is_marked_only_while_it_holds_the_loop() -> None:
    async def main() -> None:
        desk = Desk()
        inside: list[frozenset[bytes]] = []

        async def callback() -> None:
            inside.append(desk.marked)
            await asyncio.sleep(0.01)
            inside.append(desk.marked)

        run = asyncio.create_task(desk.run(callback))
        await asyncio.sleep(0)
        assert not desk.marked
        await run
        assert inside == [{RID}, {RID}]

    asyncio.run(main())


def test_a_cancelled_coroutine_gets_the_cancellation() -> None:
    async def main() -> None:
        desk = Desk()
        told: list[str] = []

        async def callback() -> None:
            try:
                await asyncio.sleep(60)
            finally:
                told.append("cancelled")

        run = asyncio.create_task(desk.run(callback))
        await asyncio.sleep(0.01)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert told == ["cancelled"]
        assert not desk.marked

    asyncio.run(main())


def test_a_coroutine_has_the_deadline() -> None:
    with pytest.raises(TimeoutError):
        asyncio.run(Desk(deadline=0.01).run(lambda: asyncio.sleep(60)))


def test_of_threads_only_the_overdue_one_stays_marked() -> None:
    async def main() -> None:
        desk = Desk(deadline=0.1)
        desk.callbacks.expect(1, "parse", computes=False)
        gate = threading.Event()
        old = asyncio.create_task(desk.run(lambda: gate.wait(timeout=20) and None, rid=b"o" * 16))
        while desk.callbacks.overdue() is None:
            await asyncio.sleep(0.01)
        new = asyncio.create_task(desk.run(lambda: gate.wait(timeout=20) and None, rid=b"n" * 16))
        await asyncio.sleep(0)
        while b"n" * 16 not in desk.marked:
            await asyncio.sleep(0.001)
        assert desk.callbacks.overdue() == b"o" * 16
        assert desk.marked == {b"o" * 16}
        gate.set()
        await asyncio.gather(old, new)

    asyncio.run(main())


def test_a_place_is_unmarked_for_its_next_owner() -> None:
    marks = RunningMarks(1, threads=2)
    place = marks.take()
    marks.write(place, LOOP, RID)
    marks.write(place, 2, b"t" * 16)
    assert marks.in_loop(place) == RID
    assert marks.running(place) == {RID, b"t" * 16}
    marks.give_back(place)
    assert marks.running(marks.take()) == frozenset()


def test_what_a_middleware_runs_in_a_thread_is_marked_and_overdue() -> None:
    desk = Desk(deadline=0)
    with desk.callbacks.in_thread(RID):
        assert desk.marked == {RID}
        time.sleep(0.001)
        assert desk.callbacks.overdue() == RID
    assert desk.marked == frozenset()
    assert desk.callbacks.overdue() is None


def test_more_threads_than_places_run_unmarked() -> None:
    desk = Desk()
    with contextlib.ExitStack() as stack:
        for number in range(6):
            stack.enter_context(desk.callbacks.in_thread(bytes([number + 1]) * 16))
        assert len(desk.marked) == 4
    assert desk.marked == frozenset()
