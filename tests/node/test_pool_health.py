"""Fitness: which workers are missing and which died, over what time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from crawlframe.conf import Settings
from crawlframe.frontier.nodes import DEATHS_WITHIN
from crawlframe.node.child_process import Child
from crawlframe.node.master.worker_pool import LACKING, LONGEST, Watch
from crawlframe.node.messages import child_line

SETTINGS = Settings(workers=2, lease=15, beat=3)
NOW = 1000.0  # seconds
LATER = NOW + LACKING + 1


@pytest.fixture
def watch() -> Watch:
    made = Watch(SETTINGS)
    made.staffed = True
    return made


@pytest.fixture
def crew() -> Iterator[list[Child]]:
    """Two workers that are ready, and a steward."""
    pairs = [child_line() for _ in range(3)]
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
    told = watch.look(crew, NOW)
    assert (told.lease, told.beat) == (15, 3)
    assert (told.missing, told.deaths, told.waits) == (0, 0, "")


def test_a_worker_is_missing_when_replacing_it_takes_long(watch: Watch, crew: list[Child]) -> None:
    assert watch.look(crew, NOW).missing == 0
    crew[0].ready = False
    assert watch.look(crew, NOW).missing == 0
    assert watch.look(crew, LATER).missing == 1
    crew[1].retiring_since = 1.0
    assert watch.look(crew, LATER).missing == 2
    crew[0].ready, crew[1].retiring_since = True, None
    assert watch.look(crew, LATER).missing == 0
    crew[0].ready = False
    assert watch.look(crew, LATER).missing == 0  # and the time begins anew


def test_a_node_that_never_had_its_workers_lacks_them(watch: Watch) -> None:
    assert watch.look([], NOW).missing == 0
    assert watch.look([], LATER).missing == 2


def test_none_is_missing_before_there_is_code(watch: Watch) -> None:
    watch.staffed = False
    assert watch.look([], NOW).missing == 0
    assert watch.look([], LATER).missing == 0
    watch.staffed = True
    assert watch.look([], LATER).missing == 0


def test_deaths_are_counted_for_a_while(watch: Watch, crew: list[Child]) -> None:
    for _ in range(3):
        watch.note_death(NOW)
    assert watch.look(crew, NOW).deaths == 3
    later = NOW + DEATHS_WITHIN + 1
    watch.note_death(later)
    assert watch.look(crew, later).deaths == 1


def test_what_anybody_waits_for_is_told_shortly(watch: Watch, crew: list[Child]) -> None:
    crew[2].waits = "x" * 1000
    assert watch.look(crew, NOW).waits == "x" * LONGEST
