"""Ends of tasks, on a real Redis and a real ledger: which end together, which are left to
others."""

from __future__ import annotations

import pytest
from redis import Redis

from crawlframe.frontier import Frontier, TaskLimits
from crawlframe.frontier.client.partitions import PartitionedStore
from crawlframe.node.task_finisher import ROUND_SECONDS, TaskFinisher
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import Task

NOW = 1000.0  # seconds

pytestmark = pytest.mark.usefixtures("orm")


def tasks(frontier: Frontier, number: int) -> list[int]:
    """Tasks that have nothing left."""
    made = [Task.objects.create(spider="s", seeds=b"").pk for _ in range(number)]
    for task in made:
        frontier.open_task(task, TaskLimits(), [])
    return made


def states() -> set[str]:
    return set(Task.objects.values_list("state", flat=True))


def test_the_first_is_ended_at_once_and_others_gather(redis_client: Redis) -> None:
    frontier = Frontier(PartitionedStore(redis_client))
    finisher = TaskFinisher(frontier, DjangoLedger())
    assert finisher.left(NOW) is None
    first, *others = tasks(frontier, 4)
    finisher.add([first])
    assert finisher.left(NOW) == 0
    finisher.end(NOW)
    assert finisher.left(NOW) is None
    assert frontier.open_tasks() == others
    for task in others:
        finisher.add([task])
    assert finisher.left(NOW) == ROUND_SECONDS
    assert finisher.left(NOW + ROUND_SECONDS) == 0
    finisher.end(NOW)
    assert frontier.open_tasks() == []
    assert states() == {"finished"}


def test_what_is_not_over_is_not_ended(redis_client: Redis) -> None:
    frontier = Frontier(PartitionedStore(redis_client))
    finisher = TaskFinisher(frontier, DjangoLedger())
    over, unknown = tasks(frontier, 1)[0], 77
    missing = Task.objects.create(spider="s", seeds=b"").pk  # unknown to Redis
    finisher.add([over, unknown, missing])
    finisher.end(NOW)
    assert Task.objects.get(pk=over).state == "finished"
    assert Task.objects.get(pk=missing).state == "running"


def test_with_several_partitions_stewards_end_tasks(redis_client: Redis) -> None:
    frontier = Frontier(PartitionedStore(redis_client, partitions=2))
    finisher = TaskFinisher(frontier, DjangoLedger())
    finisher.add(tasks(frontier, 1))
    assert finisher.left(NOW) is None
    assert states() == {"running"}
