"""PoolHealth: which workers are missing and which died, over which time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from crawlframe.conf import Settings
from crawlframe.frontier.cluster.nodes import DEATHS_WITHIN
from crawlframe.node.child_process import Child
from crawlframe.node.master.worker_pool import LACKING_SECONDS, MAX_CHARS, PoolHealth, disk_used
from crawlframe.node.messages import child_line

SETTINGS = Settings(workers=2, lease=15, beat=3)
NOW = 1000.0  # seconds
LATER = NOW + LACKING_SECONDS + 1


@pytest.fixture
def health() -> PoolHealth:
    made = PoolHealth(SETTINGS)
    made.staffed = True
    return made


@pytest.fixture
def pool() -> Iterator[list[Child]]:
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


def test_a_healthy_pool_promises_its_lease_and_beat(health: PoolHealth, pool: list[Child]) -> None:
    told = health.snapshot(pool, NOW)
    assert (told.lease, told.beat) == (15, 3)
    assert (told.missing, told.deaths, told.waits) == (0, 0, "")


def test_a_worker_is_missing_when_replacing_it_takes_long(
    health: PoolHealth, pool: list[Child]
) -> None:
    assert health.snapshot(pool, NOW).missing == 0
    pool[0].ready = False
    assert health.snapshot(pool, NOW).missing == 0
    assert health.snapshot(pool, LATER).missing == 1
    pool[1].retiring_since = 1.0
    assert health.snapshot(pool, LATER).missing == 2
    pool[0].ready, pool[1].retiring_since = True, None
    assert health.snapshot(pool, LATER).missing == 0
    pool[0].ready = False
    assert health.snapshot(pool, LATER).missing == 0  # and the time starts anew


def test_a_node_that_never_had_its_workers_lacks_them(health: PoolHealth) -> None:
    assert health.snapshot([], NOW).missing == 0
    assert health.snapshot([], LATER).missing == 2


def test_none_is_missing_before_there_is_code(health: PoolHealth) -> None:
    health.staffed = False
    assert health.snapshot([], NOW).missing == 0
    assert health.snapshot([], LATER).missing == 0
    health.staffed = True
    assert health.snapshot([], LATER).missing == 0


def test_deaths_are_counted_for_a_while(health: PoolHealth, pool: list[Child]) -> None:
    for _ in range(3):
        health.note_death(NOW)
    assert health.snapshot(pool, NOW).deaths == 3
    later = NOW + DEATHS_WITHIN + 1
    health.note_death(later)
    assert health.snapshot(pool, later).deaths == 1


def test_what_a_steward_does_wrong_is_counted_apart(health: PoolHealth, pool: list[Child]) -> None:
    for _ in range(2):
        health.note_death(NOW, "steward")
    pool[2].failures = 4
    told = health.snapshot(pool, NOW)
    assert (told.deaths, told.restarts, told.failures) == (0, 2, 4)


def test_what_is_waited_for_is_reported_shortened(health: PoolHealth, pool: list[Child]) -> None:
    pool[2].waits = "x" * 1000
    assert health.snapshot(pool, NOW).waits == "x" * MAX_CHARS


def test_how_full_the_disk_is(
    health: PoolHealth, pool: list[Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Usage:
        percent = 93.4

    monkeypatch.setattr(psutil, "disk_usage", lambda path: Usage)
    assert health.snapshot(pool, NOW).disk == 93


def test_a_disk_that_cannot_be_asked_is_unknown(tmp_path: Path) -> None:
    assert 0 <= disk_used(tmp_path) <= 100
    assert disk_used(tmp_path / "gone") == 0
