"""Fitness: which workers are missing and which died, over what time."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from crawlframe.conf import Settings
from crawlframe.node.channel import Channel
from crawlframe.node.child_process import Child
from crawlframe.node.master import worker_pool
from crawlframe.node.master.worker_pool import Watch

SETTINGS = Settings(workers=2, lease=15, beat=3)
MOMENT = 0.1  # seconds


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    monkeypatch.setattr(worker_pool, "LACKING", MOMENT)
    made = Watch(SETTINGS)
    made.staffed = True
    return made


@pytest.fixture
def crew() -> Iterator[list[Child]]:
    """Two workers that are ready, and a steward."""
    pairs = [Channel.pair() for _ in range(3)]
    made = [
        Child(role, 0, ours)
        for role, (ours, _) in zip(("worker", "worker", "steward"), pairs, strict=True)
    ]
    for child in made:
        child.ready = True
    yield made
    for ends in pairs:
        for end in ends:
            end.close()


def test_what_it_promises(watch: Watch, crew: list[Child]) -> None:
    told = watch.look(crew)
    assert (told.lease, told.beat) == (15, 3)
    assert (told.missing, told.deaths, told.waits) == (0, 0, "")


def test_a_worker_is_missing_when_replacing_it_takes_long(watch: Watch, crew: list[Child]) -> None:
    assert watch.look(crew).missing == 0
    crew[0].ready = False
    assert watch.look(crew).missing == 0
    time.sleep(2 * MOMENT)
    assert watch.look(crew).missing == 1
    crew[1].retiring_since = 1.0
    assert watch.look(crew).missing == 2
    crew[0].ready, crew[1].retiring_since = True, None
    assert watch.look(crew).missing == 0
    crew[0].ready = False
    assert watch.look(crew).missing == 0  # and the time begins anew


def test_a_node_that_never_had_its_workers_lacks_them(watch: Watch) -> None:
    assert watch.look([]).missing == 0
    time.sleep(2 * MOMENT)
    assert watch.look([]).missing == 2


def test_none_is_missing_before_there_is_code(watch: Watch) -> None:
    watch.staffed = False
    assert watch.look([]).missing == 0
    time.sleep(2 * MOMENT)
    assert watch.look([]).missing == 0
    watch.staffed = True
    assert watch.look([]).missing == 0


def test_deaths_are_counted_for_a_while(
    watch: Watch, crew: list[Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        watch.note_death()
    assert watch.look(crew).deaths == 3
    monkeypatch.setattr(worker_pool, "DEATHS_WITHIN", MOMENT)
    time.sleep(2 * MOMENT)
    watch.note_death()
    assert watch.look(crew).deaths == 1


def test_what_anybody_waits_for_is_told_shortly(watch: Watch, crew: list[Child]) -> None:
    crew[2].waits = "x" * 1000
    assert watch.look(crew).waits == "x" * worker_pool.LONGEST
