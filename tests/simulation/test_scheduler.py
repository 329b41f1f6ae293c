"""The scheduler: simulated time, processes that die, and the same run for the same seed."""

from __future__ import annotations

from tests.simulation.scheduler import Machine, Process, Scheduler


def started(scheduler: Scheduler, main: object, parent: Process | None = None) -> Process:
    return scheduler.process(Machine("m"), "test", main, parent)  # type: ignore[arg-type]


def test_waiting_takes_simulated_time_only() -> None:
    scheduler, times = Scheduler(1), list[float]()

    def main() -> None:
        for _ in range(3):
            scheduler.wait(100.0)
            times.append(scheduler.now)

    started(scheduler, main)
    scheduler.run(1000.0)
    assert [round(time) for time in times] == [100, 200, 300]
    assert scheduler.now == 1000.0


def test_a_killed_process_does_nothing_more() -> None:
    scheduler, seen = Scheduler(1), list[str]()

    def main() -> None:
        try:
            scheduler.wait(10.0)
        finally:
            seen.append("handler")
            scheduler.wait(1.0)  # a call of the dead
            seen.append("too much")

    process = started(scheduler, main)
    scheduler.run(5.0)
    scheduler.kill(process)
    scheduler.run(100.0)
    assert seen == ["handler"]
    assert process.status == 9


def test_children_end_with_their_parent() -> None:
    scheduler = Scheduler(1)
    parent = started(scheduler, lambda: scheduler.wait(None))
    child = started(scheduler, lambda: scheduler.wait(None), parent)
    scheduler.run(1.0)
    scheduler.kill(parent)
    assert not child.alive


def test_a_paused_process_continues_later() -> None:
    scheduler, times = Scheduler(1), list[float]()

    def main() -> None:
        scheduler.wait(1.0)
        times.append(scheduler.now)

    process = started(scheduler, main)
    scheduler.run(0.5)
    process.paused_until = 30.0
    scheduler.run(100.0)
    assert round(times[0]) == 30


def test_the_same_seed_is_the_same_order() -> None:
    def order(seed: int) -> tuple[list[int], int]:
        scheduler, seen = Scheduler(seed), list[int]()

        def main(number: int) -> None:
            for _ in range(5):
                scheduler.wait(0.0)
                seen.append(number)

        for number in range(4):
            started(scheduler, lambda number=number: main(number))
        scheduler.run(1.0)
        return seen, scheduler.trace

    assert order(1) == order(1)
    assert order(1) != order(2)
