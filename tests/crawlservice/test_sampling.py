"""Sampling: differences of samples show the work done, whatever tasks do meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from crawlframe.conf import Settings
from crawlframe.frontier import Counts, Frontier
from crawlservice.models import Sample, Task
from crawlservice.steward import sampling
from crawlservice.steward.sampling import Sampler
from crawlservice.steward.steward import Steward
from crawlservice.tasks.submit import submit


@pytest.fixture(autouse=True)
def every_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "SAMPLE_SECONDS", 0.0)


@pytest.fixture
def task(orm: str) -> Task:
    return Task.objects.create(spider="shop", seeds=b"")


def counts(na: int, nf: int, ne: int, items: int = 0, parked: int = 0) -> Counts:
    return Counts("running", na, nf, ne, 0, 0, 0, 0, parked, items)


def cluster() -> list[tuple[int, ...]]:
    rows = Sample.objects.filter(task=None).order_by("pk")
    return [*rows.values_list("nf", "ne", "items", "ready", "parked")]


def of(task: Task) -> list[tuple[int, ...]]:
    rows = Sample.objects.filter(task=task).order_by("pk")
    return [*rows.values_list("nf", "ne", "items", "ready", "parked")]


def test_open_and_ended_tasks_are_summed(task: Task) -> None:
    ended = {"state": Task.State.FINISHED, "na": 9, "nf": 7, "ne": 2, "items": 5}
    Task.objects.create(spider="shop", seeds=b"", **ended)
    sampler = Sampler()
    sampler.tick({task.pk: counts(10, 3, 1, items=4, parked=2)})
    assert cluster() == [(10, 3, 9, 4, 2)]
    assert of(task) == [(3, 1, 4, 4, 2)]
    Task.objects.filter(pk=task.pk).update(**ended)
    sampler.tick({})
    assert cluster()[1:] == [(14, 4, 10, 0, 0)]


def test_a_task_that_ended_since_it_was_counted_counts_once(task: Task) -> None:
    Task.objects.filter(pk=task.pk).update(state="finished", na=9, nf=7, ne=2)
    Sampler().tick({task.pk: counts(9, 6, 2)})
    Sampler().tick({task.pk: None})
    assert cluster() == [(7, 2, 0, 1, 0), (7, 2, 0, 0, 0)]


def test_another_leader_goes_on_with_the_same_numbers(task: Task) -> None:
    Sampler().tick({task.pk: counts(10, 3, 1)})
    Sampler().tick({task.pk: counts(10, 5, 1)})
    assert [nf for nf, *_ in cluster()] == [3, 5]


def test_only_tasks_whose_numbers_changed_are_written(task: Task) -> None:
    other = Task.objects.create(spider="shop", seeds=b"")
    sampler = Sampler()
    for nf in (0, 0, 1):
        sampler.tick({task.pk: counts(2, nf, 0), other.pk: counts(1, 0, 0)})
    assert len(of(task)) == 2
    assert len(of(other)) == 1
    assert len(cluster()) == 3


def test_samples_of_an_old_task_lie_further_apart(task: Task) -> None:
    Task.objects.filter(pk=task.pk).update(created_at=timezone.now() - timedelta(days=1))
    sampler = Sampler()
    for nf in range(3):
        sampler.tick({task.pk: counts(10, nf, 0)})
    assert len(of(task)) == 1
    assert len(cluster()) == 3


def test_it_costs_the_same_however_many_tasks(orm: str) -> None:
    def cost() -> int:
        found: dict[int, Counts | None] = {
            pk: counts(2, 1, 0) for pk in Task.objects.values_list("pk", flat=True)
        }
        with CaptureQueriesContext(connection) as queries:
            Sampler().tick(found)
        return len(queries)

    Task.objects.create(spider="shop", seeds=b"")
    before = cost()
    Task.objects.bulk_create(Task(spider="shop", seeds=b"") for _ in range(20))
    assert cost() == before <= 9


def test_the_leading_steward_samples(
    published: Frontier, ended_task: Task, join: Callable[..., int]
) -> None:
    task = submit("shop", {"city": "Ulm"})
    steward = Steward(Settings(), published)
    steward.tick()
    assert cluster() == [(2, 1, 2, 1, 0)]
    assert of(task) == [(0, 0, 0, 1, 0)]
    Steward(Settings(), published).tick()  # does not lead
    assert len(cluster()) == 1
    steward.resign()


def test_what_ended_long_ago_is_summed_once_unless_it_runs_again(task: Task) -> None:
    ended = {"state": Task.State.FINISHED, "na": 9, "nf": 7, "ne": 2, "items": 5}
    Task.objects.filter(pk=task.pk).update(**ended)
    later = Task.objects.create(spider="shop", seeds=b"")
    sampler = Sampler()
    for nf in (1, 2):
        with CaptureQueriesContext(connection) as queries:
            sampler.tick({later.pk: counts(10, nf, 0)})
    first, *_ = [query["sql"] for query in queries if "SUM(" in query["sql"]]
    assert str(later.pk) in first  # from here on only
    sampler.tick({task.pk: counts(9, 3, 0), later.pk: counts(10, 2, 0)})
    sampler.tick({task.pk: counts(9, 9, 0), later.pk: counts(10, 2, 0)})
    Task.objects.filter(pk=task.pk).update(nf=9, ne=0)
    sampler.tick({later.pk: counts(10, 3, 0)})
    sampler.tick({})
    assert [nf for nf, *_ in cluster()] == [8, 9, 9, 11, 12, 9]
