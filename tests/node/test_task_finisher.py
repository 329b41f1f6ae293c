"""Ends of tasks, on a real Redis and a real ledger: what ends together, what is left to others."""

from __future__ import annotations

import pytest
from redis import Redis

from crawlframe.frontier import Frontier, TaskLimits
from crawlframe.frontier.partitions import PartitionedStore
from crawlframe.node.task_finisher import EVERY, Endings
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import Task

NOW = 1000.0  # seconds

pytestmark = pytest.mark.usefixtures("orm")


def tasks(frontier: Frontier, number: int) -> list[int]:
    """Tasks of which nothing remains."""
    made = [Task.objects.create(spider="s", seeds=b"").pk for _ in range(number)]
    for task in made:
        frontier.open_task(task, TaskLimits(), [])
    return made


def states() -> set[str]:
    return set(Task.objects.values_list("state", flat=True))


def test_the_first_is_ended_at_once_and_others_gather(redis_client: Redis) -> None:
    frontier = Frontier(PartitionedStore(redis_client))
    endings = Endings(frontier, DjangoLedger())
    assert endings.left(NOW) is None
    first, *others = tasks(frontier, 4)
    endings.add([first])
    assert endings.left(NOW) == 0
    endings.end(NOW)
    assert endings.left(NOW) is None
    assert frontier.open_tasks() == others
    for task in others:
        endings.add([task])
    assert endings.left(NOW) == EVERY
    assert endings.left(NOW + EVERY) == 0
    endings.end(NOW)
    assert frontier.open_tasks() == []
    assert states() == {"finished"}


def test_what_is_not_over_is_not_ended(redis_client: Redis) -> None:
    frontier = Frontier(PartitionedStore(redis_client))
    endings = Endings(frontier, DjangoLedger())
    over, unknown = tasks(frontier, 1)[0], 77
    missing = Task.objects.create(spider="s", seeds=b"").pk  # of which Redis does not know
    endings.add([over, unknown, missing])
    endings.end(NOW)
    assert Task.objects.get(pk=over).state == "finished"
    assert Task.objects.get(pk=missing).state == "running"


def test_with_several_partitions_stewards_end_tasks(redis_client: Redis) -> None:
    frontier = Frontier(PartitionedStore(redis_client, partitions=2))
    endings = Endings(frontier, DjangoLedger())
    endings.add(tasks(frontier, 1))
    assert endings.left(NOW) is None
    assert states() == {"running"}
