"""Tasks that run in one worker: one generation serves each, as long as it lives."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from redis import Redis

from crawlframe.frontier import Claim, TaskLimits
from tests.frontier.bench import Bench

ONE, OTHER = 1, 2  # generations
PINNED, FREE = 1, 2  # tasks


class PinBench(Bench):
    """``rooms``: of each generation, sent with its claims."""

    def __init__(self, redis: Redis, partitions: int = 1) -> None:
        super().__init__(redis, partitions)
        self.rooms: dict[int, dict[int, int]] = {ONE: {}, OTHER: {}}
        for generation in (ONE, OTHER):
            self.frontier.leases.renew(generation, 60)

    def open_pinned(self, *seeds: Any, task: int = PINNED, concurrency: int = 1000) -> None:
        limits = TaskLimits(0, 0, concurrency, workers=1)
        self.frontier.open_task(task, limits, list(seeds))

    def ask(self, generation: int, n: int = 500) -> Claim:
        """A claim as a master makes it: it asks for tasks without a server."""
        self.sequences[generation] += 1
        rooms = self.rooms[generation]
        claim: Claim = self.frontier.claim(
            generation, self.sequences[generation], n, (), dict(rooms)
        )
        for task in claim.unserved:
            if self.frontier.pins.take(task, generation):
                rooms.setdefault(task, 100)
        assert self.frontier.audit() == []
        return claim

    def asked(self, generation: int, n: int = 500) -> list[str]:
        return sorted(self.names(self.ask(generation, n).requests))


@pytest.fixture(params=[1, 3])
def pins(request: Any, redis_client: Redis) -> PinBench:
    return PinBench(redis_client, request.param)


def spread(bench: PinBench, n: int = 12, task: int = PINNED) -> list[Any]:
    return [bench.request(f"{task}/{k}", f"h{k}.example", task=task) for k in range(n)]


def test_the_first_that_asks_serves_the_task(pins: PinBench) -> None:
    seeds = spread(pins)
    pins.open_pinned(*seeds)
    claim = pins.ask(ONE)
    assert (claim.requests, claim.unserved, claim.wait) == ([], {PINNED}, 0)
    assert pins.ask(OTHER).unserved == set()
    assert pins.asked(OTHER) == []
    claim = pins.ask(ONE)
    assert sorted(pins.names(claim.requests)) == sorted(pins.names(seeds))
    assert claim.tasks[PINNED].pinned


def test_other_tasks_are_served_by_all(pins: PinBench) -> None:
    pins.open(*spread(pins, task=FREE), task=FREE)
    claim = pins.ask(OTHER)
    assert len(claim.requests) == 12
    assert not claim.tasks[FREE].pinned


def test_both_kinds_at_one_host(redis_client: Redis) -> None:
    pins = PinBench(redis_client)
    pins.open_pinned(*(pins.request(f"p{k}", depth=k) for k in range(40)))
    pins.ask(ONE)
    pins.open(*(pins.request(f"f{k}", task=FREE, depth=50) for k in range(40)), task=FREE)
    assert pins.asked(OTHER) == sorted(f"f{k}" for k in range(40))
    found: list[str] = []
    while len(found) < 40:  # a claim looks at 16 lanes
        some = pins.asked(ONE)
        assert some
        found += some
    assert sorted(found) == sorted(f"p{k}" for k in range(40))


def test_who_does_not_serve_it_does_not_spin(redis_client: Redis) -> None:
    pins = PinBench(redis_client)
    pins.open_pinned(*spread(pins))
    pins.ask(ONE)
    pins.ask(OTHER)
    assert pins.ask(OTHER).wait == -1
    assert len(pins.ask(ONE).requests) == 12


def test_no_more_than_its_worker_has_room_for(redis_client: Redis) -> None:
    pins = PinBench(redis_client)
    pins.open_pinned(*spread(pins))
    pins.ask(ONE)
    pins.rooms[ONE][PINNED] = 5
    assert len(pins.ask(ONE).requests) == 5
    pins.rooms[ONE][PINNED] = 0
    pins.ask(ONE)
    claim = pins.ask(ONE)
    assert claim.requests == []
    assert 0 < claim.wait <= 20  # it is asked again a little later
    pins.rooms[ONE][PINNED] = 7
    found: list[Any] = []
    while len(found) < 7:
        found += pins.ask(ONE).requests
    assert len(found) == 7


def test_many_pinned_hosts_do_not_hide_another(redis_client: Redis) -> None:
    pins = PinBench(redis_client)
    pins.open_pinned(*spread(pins, 200))
    pins.ask(ONE)
    pins.open(*spread(pins, 3, FREE), task=FREE)
    found: list[str] = []
    for _ in range(40):
        found += pins.asked(OTHER, 10)
    assert len(found) == 3


@pytest.mark.parametrize("held", [False, True])
def test_the_next_serves_it_when_a_generation_dies(pins: PinBench, held: bool) -> None:
    seeds = spread(pins)
    pins.open_pinned(*seeds)
    pins.ask(ONE)
    pins.ask(OTHER)
    if held:
        assert len(pins.ask(ONE).requests) == 12
    pins.frontier.leases.replay(ONE)
    assert pins.ask(OTHER).unserved == {PINNED}
    assert pins.asked(OTHER) == sorted(pins.names(seeds))


def test_follow_ups_stay_with_it(pins: PinBench) -> None:
    (root,) = [pins.request("root")]
    pins.open_pinned(root)
    pins.ask(ONE)
    (held,) = pins.ask(ONE).requests
    links = spread(pins)
    pins.complete(held, *links)
    assert pins.asked(OTHER) == []
    assert pins.asked(ONE) == sorted(pins.names(links))


def test_paused_and_resumed(pins: PinBench) -> None:
    seeds = spread(pins)
    pins.open_pinned(*seeds)
    pins.ask(ONE)
    pins.ask(OTHER)
    pins.frontier.pause(PINNED)
    assert pins.asked(ONE) == pins.asked(OTHER) == []
    pins.frontier.resume(PINNED)
    assert pins.asked(OTHER) == []
    assert pins.asked(ONE) == sorted(pins.names(seeds))


def test_cancelled(pins: PinBench) -> None:
    pins.open_pinned(*spread(pins))
    pins.ask(ONE)
    pins.ask(OTHER)
    pins.frontier.cancel(PINNED)
    assert pins.frontier.counts(PINNED).nr == 0
    assert pins.asked(ONE) == pins.asked(OTHER) == []


def test_a_generation_that_lacks_the_code_leaves_it(pins: PinBench) -> None:
    pins.open_pinned(pins.request("root"))
    pins.ask(ONE)
    (held,) = pins.ask(ONE).requests
    pins.frontier.pins.leave([PINNED], ONE)
    assert pins.frontier.pins.take(PINNED, OTHER) is False  # it holds something
    pins.frontier.park(ONE, [held.given_back("no such spider")], "old")
    pins.frontier.pins.leave([PINNED], ONE)
    assert pins.frontier.retake("new", 10) == 1
    pins.ask(OTHER)
    assert pins.asked(OTHER) == ["root"]


@pytest.fixture
def leaving(pins: PinBench) -> list[Any]:
    """The requests of a generation that lacks the code of the task: some in each partition."""
    pins.open_pinned(*spread(pins))
    pins.ask(ONE)
    held = pins.ask(ONE).requests
    assert len(held) == 12
    return held


def park(pins: PinBench, *requests: Any) -> None:
    pins.frontier.park(ONE, [one.given_back("no such spider") for one in requests], "old")
    pins.frontier.pins.leave([PINNED], ONE)


def test_it_is_left_with_the_last_request_of_all_partitions(
    pins: PinBench, leaving: list[Any]
) -> None:
    for request in leaving:
        assert pins.frontier.pins.take(PINNED, OTHER) is False
        park(pins, request)
    assert pins.frontier.pins.take(PINNED, OTHER) is True
    assert pins.frontier.pins.take(PINNED, ONE) is False


@pytest.mark.parametrize("left", [0, 1])
@pytest.mark.parametrize("first", [ONE, OTHER])
def test_two_generations_never_hold_it_while_it_is_left(
    pins: PinBench, leaving: list[Any], monkeypatch: pytest.MonkeyPatch, first: int, left: int
) -> None:
    """Whatever both ask for between two steps of it."""
    waiting = spread(pins, 24)[12:]
    pins.complete(leaving.pop(0), *waiting)
    run, holding = pins.frontier.pins._store.run, {ONE: leaving[:left], OTHER: []}
    inside = False

    def both(name: str, *given: Any) -> Any:
        nonlocal inside
        if name == "unpin" and not inside:
            inside = True
            for generation in (first, ONE + OTHER - first):
                holding[generation] += pins.ask(generation, 3).requests
            inside = False
        return run(name, *given)

    monkeypatch.setattr(pins.frontier.pins._store, "run", both)
    pins.rooms[ONE] = {PINNED: 100}
    park(pins, *leaving[left:])
    for generation in (OTHER, ONE):
        holding[generation] += pins.ask(generation).requests
    assert not (holding[ONE] and holding[OTHER])


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_who_dies_while_leaving_is_followed_by_another(
    pins: PinBench, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    pins.open_pinned(*spread(pins))
    pins.ask(ONE)
    store, left = pins.frontier.pins._store, steps
    run = store.run

    def dying(name: str, *given: Any) -> Any:
        nonlocal left
        left -= name == "unpin"
        if left < 0:
            raise ConnectionError
        return run(name, *given)

    monkeypatch.setattr(store, "run", dying)
    with contextlib.suppress(ConnectionError):
        pins.frontier.pins.leave([PINNED], ONE)
    monkeypatch.setattr(store, "run", run)
    pins.frontier.leases.replay(ONE)
    pins.ask(OTHER)
    assert len(pins.asked(OTHER)) == 12


def test_a_starved_generation_does_not_keep_the_last_one(redis_client: Redis) -> None:
    """Claims leave something to generations that have less, but these cannot have this."""
    pins = PinBench(redis_client)
    pins.open(*(pins.request(f"f{k}", "busy.example", task=FREE) for k in range(50)), task=FREE)
    pins.ask(ONE)
    pins.open_pinned(pins.request("alone"))
    pins.ask(ONE)
    pins.ask(OTHER)
    assert pins.asked(ONE) == ["alone"]


def test_a_task_that_is_not_known(pins: PinBench) -> None:
    assert pins.frontier.pins.take(77, ONE) is False
    pins.frontier.pins.leave([77], ONE)
