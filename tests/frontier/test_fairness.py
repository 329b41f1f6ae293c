"""Scarce requests are shared, even though the generation that freed the slot claims first."""

from __future__ import annotations

import time

from crawlframe.frontier import Claimed
from tests.frontier.bench import Bench

ROUNDS = 20
SLOTS = 8


class Holder:
    """A generation whose fetches end one by one; it claims as much as it has room for."""

    def __init__(self, bench: Bench, generation: int, room: int = 100) -> None:
        self.bench, self.generation, self.room = bench, generation, room
        self.held: list[Claimed] = []

    def ask(self) -> None:
        n = self.room - len(self.held)
        self.held += self.bench.claim(n, self.generation)

    def turn(self) -> None:
        """Ends the oldest fetch, whose page is written at once."""
        over = [self.held.pop(0)] if self.held else []
        n = self.room - len(self.held)
        self.held += self.bench.claim(n, self.generation, fetched=over)
        self.bench.complete_all(over)


def test_a_generation_without_any_gets_its_share(bench: Bench) -> None:
    bench.open(*bench.requests(100), concurrency=SLOTS)
    rich, poor = Holder(bench, 1), Holder(bench, 2)
    rich.ask()
    assert len(rich.held) == SLOTS
    for _ in range(ROUNDS):
        poor.turn()
        rich.turn()
    assert len(rich.held) + len(poor.held) == SLOTS
    assert len(poor.held) in (3, 4)


def test_pages_that_lead_to_one_other_each_are_shared(bench: Bench) -> None:
    """No host is full: the generation that completes a page is the first to see the next one."""
    bench.open(*bench.requests(SLOTS))
    rich, poor = Holder(bench, 1), Holder(bench, 2)
    rich.ask()
    for turn in range(ROUNDS):
        for holder in (poor, rich):
            if holder.held:
                page = holder.held.pop(0)
                bench.complete(page, bench.request(f"{holder.generation}/{turn}"))
            holder.ask()
    assert len(rich.held) + len(poor.held) == SLOTS
    assert len(poor.held) >= 2


def test_two_tasks_leave_no_more_than_one(bench: Bench) -> None:
    """A request that one lane of a host leaves is not taken from the next."""
    bench.open(*bench.requests(100), concurrency=SLOTS)
    bench.open(*bench.requests(100, task=2), concurrency=SLOTS, task=2)
    rich, poor = Holder(bench, 1), Holder(bench, 2)
    rich.ask()
    for _ in range(ROUNDS):
        poor.turn()
        rich.turn()
    assert len(poor.held) in (3, 4)


def test_three_share_too(bench: Bench) -> None:
    bench.open(*bench.requests(100), concurrency=SLOTS)
    holders = [Holder(bench, generation) for generation in (1, 2, 3)]
    holders[0].ask()
    for _ in range(ROUNDS):
        for holder in reversed(holders):
            holder.turn()
    assert sum(len(holder.held) for holder in holders) == SLOTS
    assert all(len(holder.held) >= 2 for holder in holders)


def test_who_has_room_for_few_is_left_no_more(bench: Bench) -> None:
    bench.open(*bench.requests(100), concurrency=SLOTS)
    rich, small = Holder(bench, 1), Holder(bench, 2, room=1)
    rich.ask()
    for _ in range(ROUNDS):
        small.turn()
        rich.turn()
    assert (len(rich.held), len(small.held)) == (SLOTS - 1, 1)


def test_a_claim_that_left_a_slot_is_in_no_hurry(bench: Bench) -> None:
    bench.open(*bench.requests(100), concurrency=SLOTS)
    rich, poor = Holder(bench, 1), Holder(bench, 2)
    rich.ask()
    for _ in range(ROUNDS):
        poor.ask()
        assert poor.held == []
        rich.turn()
        if len(rich.held) < SLOTS:
            break
    assert len(rich.held) == SLOTS - 1
    assert bench.wait >= 20


def test_what_nobody_fetches_is_taken_after_all(bench: Bench) -> None:
    bench.open(*bench.requests(100), concurrency=SLOTS)
    rich, gone = Holder(bench, 1), Holder(bench, 2)
    rich.ask()
    gone.ask()
    deadline = time.monotonic() + 10
    while True:
        rich.ask()
        rich.turn()
        if len(rich.held) == SLOTS and bench.wait < 0:
            break
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_who_got_enough_is_left_no_more(bench: Bench) -> None:
    bench.open(*bench.requests(1))
    Holder(bench, 1).ask()
    poor = Holder(bench, 2, room=3)
    poor.ask()
    assert bench.redis.zscore(bench.key("STARVED"), 2)
    bench.frontier.admit(1, bench.requests(9)[1:])
    poor.ask()
    assert len(poor.held) == 3
    assert bench.redis.zscore(bench.key("STARVED"), 2) is None


def test_nothing_is_left_to_a_dead_generation(bench: Bench) -> None:
    bench.open(*bench.requests(100), concurrency=SLOTS)
    rich, dead = Holder(bench, 1), Holder(bench, 2)
    rich.ask()
    dead.ask()
    bench.frontier.leases.replay(2)
    rich.turn()
    assert len(rich.held) == SLOTS
    assert bench.redis.zrange(bench.key("STARVED"), 0, -1) == [b"1"]


def test_of_a_full_host_nothing_is_left(bench: Bench) -> None:
    """Otherwise the claim would come back for it, and leave nothing elsewhere."""
    bench.open(*bench.requests(2))
    rich, poor = Holder(bench, 1), Holder(bench, 2)
    rich.ask()
    bench.open(bench.request("strict", task=2), task=2, concurrency=2)
    bench.frontier.admit(1, [bench.request("more", depth=1)])
    poor.ask()
    bench.frontier.admit(1, [bench.request("most", depth=2)])
    rich.ask()
    assert (len(rich.held), poor.held) == (2, [])
    assert bench.wait == -1


def test_where_there_is_more_than_enough_a_claim_gets_what_it_asked_for(bench: Bench) -> None:
    bench.open(*bench.requests(5))
    rich, poor = Holder(bench, 1), Holder(bench, 2)
    rich.ask()
    poor.ask()
    bench.frontier.admit(1, bench.requests(55)[5:])
    assert len(bench.claim(3, generation=1)) == 3


def test_a_lane_that_comes_later_queues_behind_those_of_its_rank(bench: Bench) -> None:
    for task in (1, 2):
        bench.open(*(bench.request(f"{task}/{n}", task=task) for n in range(4)), task=task)
    for _ in range(3):
        bench.claim(1)
    bench.open(bench.request("3/0", task=3), task=3)
    bench.frontier.admit(1, [bench.request("unimportant", priority=-1)])
    bench.frontier.admit(1, [bench.request("important", priority=1)])
    names = [bench.names(bench.claim(1))[0] for _ in range(8)]
    assert names[0] == "important"
    assert names[-1] == "unimportant"
    assert names.index("3/0") == 3  # after the important one, and one of each other task
