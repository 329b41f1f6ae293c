"""Forecasts: a percentage and a time left only where they can be known."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from crawlframe.frontier import Frontier
from crawlservice.cli.terminal import share, time_left
from crawlservice.models import Sample, Task
from crawlservice.tasks.progress import forecast as room
from crawlservice.tasks.progress.forecast import Basis, forecast, forecasts
from crawlservice.tasks.progress.progress import Progress
from crawlservice.tasks.submit import submit

Now = Callable[..., Progress]


@pytest.fixture
def now(orm: str) -> Now:
    """A running task at this moment: ``now(na, nf, ne=0, ...)``; keywords are its fields."""

    def make(na: int, nf: int, ne: int = 0, live: bool = True, **fields: Any) -> Progress:
        task = Task.objects.create(spider="shop", seeds=b"", **fields)
        return Progress(task, live, na, nf, ne, 0, ready=na - nf - ne)

    return make


def sample(progress: Progress, na: int, done: int) -> None:
    waiting = {"ready": na - done, "in_progress": 0, "delayed": 0, "parked": 0}
    Sample.objects.create(task=progress.task, nf=done, ne=0, items=0, **waiting)


def test_while_links_are_found_nobody_knows(now: Now) -> None:
    known = forecast(now(17, 16))
    assert (known.total, known.percent, known.left, known.share) == (None, None, None, "")
    assert known.seconds(5.0) is None
    assert known.words == "16 done, 1 known to remain"
    assert (share(known), time_left(known, 5.0)) == ("", "")


def test_the_last_run_is_a_measure(now: Now) -> None:
    known = forecast(now(17, 12, 4, previous_na=61))
    assert (known.total, known.basis, known.left) == (61, Basis.LAST_RUN, 45)
    assert known.words == "12 done, 4 errors of about 61 as last time"
    assert known.seconds(5.0) == 9
    assert share(known) == "about 26 % of 61 as last time"
    assert time_left(known, 5.0) == "about 0:09 left"


def test_a_task_that_is_larger_than_the_last_run_has_no_measure(now: Now) -> None:
    assert forecast(now(62, 61, previous_na=61)).total is None


def test_a_page_limit_that_is_reached_ends_the_growth(now: Now) -> None:
    # The run of the spider's start does not count for it.
    assert forecast(now(100, 60, settings={"page_limit": 100})).total is None
    known = forecast(now(101, 60, settings={"page_limit": 100}, previous_na=500))
    assert (known.total, known.basis, known.share) == (101, Basis.ADMITTED, "59 %")
    assert known.words == "60 done, 41 left"
    assert time_left(known, 1.0) == "0:41 left"


@pytest.mark.parametrize(
    ("na", "done", "samples", "total"),
    [
        (1000, 600, [(1000, 400), (1000, 500)], 1000),  # none was new during 200 requests
        (1000, 600, [(999, 400), (1000, 500)], None),  # 100 of 600 are too few
        (1000, 600, [(1000, 450)], 1000),
        (1000, 600, [(1000, 451)], None),
        (1000, 99, [(1000, 0)], None),
        (1000, 100, [(1000, 0)], 1000),
        (1000, 600, [], None),
    ],
)
def test_what_has_not_grown_for_long_is_final(
    now: Now, na: int, done: int, samples: list[tuple[int, int]], total: int | None
) -> None:
    progress, other = now(na, done), now(1000, 0)
    for one in samples:
        sample(progress, *one)
    sample(other, na, 0)
    assert forecast(progress).total == total


def test_only_what_runs_has_a_time_left(now: Now) -> None:
    limited = {"settings": {"page_limit": 1}}
    assert forecast(now(10, 5, **limited)).seconds(1.0) == 5
    assert forecast(now(10, 5, state="paused", **limited)).seconds(1.0) is None
    assert forecast(now(10, 5, **limited)).seconds(0.0) is None


def test_a_counter_that_cannot_be_read_is_no_last_run(now: Now) -> None:
    known = forecast(now(0, 0))
    assert (known.total, known.basis) == (None, Basis.UNKNOWN)
    assert known.words == "0 done, 0 known to remain"
    assert forecast(now(0, 0, live=False)).words == "unknown: its numbers are in Redis"


def test_what_redis_does_not_know_has_no_forecast(now: Now) -> None:
    known = forecast(now(0, 0, live=False, previous_na=61))
    assert known.total is None


def test_a_task_that_has_ended_is_done(now: Now) -> None:
    ended = {"state": "finished", "finished_at": timezone.now() + timedelta(seconds=5)}
    known = forecast(now(17, 16, 1, live=False, **ended))
    assert (known.total, known.left, known.percent) == (17, 0, 100)
    assert known.words == "16 done, 1 error"


def test_it_costs_one_query_for_many(now: Now, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [now(1000, 600) for _ in range(5)]
    with CaptureQueriesContext(connection) as queries:
        assert [known.progress for known in forecasts(found)] == found
    assert len(queries) == 1
    with CaptureQueriesContext(connection) as queries:
        forecasts([now(17, 16)])
    assert not [query for query in queries if "sample" in query["sql"]]  # too few to tell
    sample(found[4], 1000, 100)
    monkeypatch.setattr(room, "GROUP", 2)
    assert [known.total for known in forecasts(found)] == [None] * 4 + [1000]


def test_a_new_task_knows_the_last_run_with_its_arguments(published: Frontier) -> None:
    def ended(na: int, outcome: str, **arguments: Any) -> None:
        task = submit("shop", arguments)
        Task.objects.filter(pk=task.pk).update(na=na, outcome=outcome, state="finished")

    ended(61, "finished", city="Ulm", pages=3)
    ended(60, "finished_with_errors", city="Ulm", pages=3)
    ended(5, "failed", city="Ulm", pages=3)
    ended(9, "finished", city="Bonn")
    assert submit("shop", {"pages": 3, "city": "Ulm"}).previous_na == 60
    assert submit("shop", {"city": "Ulm"}).previous_na is None
