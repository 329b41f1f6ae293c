"""Cancelled requests are not errors: they are counted separately wherever errors are read."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from rich.console import Console

from crawlframe.frontier import Completion, Frontier
from crawlservice.cli.report import report
from crawlservice.cli.terminal import TaskProgressView
from crawlservice.management.commands.top import Meters
from crawlservice.models import Page, Task
from crawlservice.monitoring import charts, overview
from crawlservice.tasks.progress import progress, summary
from crawlservice.tasks.progress.forecast import forecast
from crawlservice.tasks.submit import cancel, submit

CANCELLED = {"state": "error", "reason": "cancelled", "fetch_ms": 0, "status": None}


@pytest.fixture
def cancelled_task(ended_task: Task, add_page: Callable[..., Page]) -> Task:
    """start -> a (done), b (http_404), and 20 requests that were cancelled."""
    names = [b"c%d" % n for n in range(20)]
    for name in names:
        add_page(ended_task, name, **CANCELLED)
    ended_task.state = Task.State.CANCELLED
    ended_task.created_at = timezone.now() - timedelta(seconds=10)
    ended_task.finished_at = timezone.now()
    ended_task.na, ended_task.ne, ended_task.cancelled = 23, 21, 20
    ended_task.save()
    return ended_task


def shown(thing: Any) -> str:
    console = Console(width=200)
    with console.capture() as capture:
        console.print(thing)
    return capture.get()


def test_a_task_that_runs_counts_them_apart(published: Frontier) -> None:
    task = submit("shop", {"city": "Ulm"})
    cancel(task.pk)
    (one,) = progress.read([Task.objects.get()])
    assert (one.na, one.ne, one.cancelled, one.errors, one.worked) == (1, 1, 1, 0, 0)


def test_a_row_that_a_worker_cancelled_counts_so_in_redis(published: Frontier) -> None:
    task = submit("shop", {"city": "Ulm"})
    (seed,) = published.claim(1, 1, 1).requests
    published.complete([Completion(seed.rid, task.pk, seed.host, True, cancelled=True)])
    counts = published.counts(task.pk)
    assert counts is not None
    assert (counts.ne, counts.cancelled, counts.errors) == (1, 1, 0)


def test_an_ended_task(cancelled_task: Task) -> None:
    (one,) = progress.read([cancelled_task])
    assert (one.ne, one.cancelled, one.errors, one.worked) == (21, 20, 1, 3)
    assert 0.2 < charts.rate(one) < 0.4  # pages a second, without cancelled requests


def test_the_hosts_and_their_errors(
    cancelled_task: Task, add_page: Callable[..., Page], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are neither counted, nor in the way of pages that were fetched before them."""
    monkeypatch.setattr(overview, "ROWS", 3)
    found = overview.hosts()
    assert found.rows == 2
    (host,) = found.failing
    assert (host.pages, host.errors, host.reason) == (2, 1, "http_404")


def test_the_errors_and_statuses_of_a_task(
    cancelled_task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summary, "MAX_ROWS", 5)
    causes = summary.causes_of(cancelled_task)
    assert [(cause.reason, cause.errors) for cause in causes] == [("http_404", 1)]
    assert sum(dict(summary.statuses_of(cancelled_task)).values()) == 3


def test_the_report_and_the_live_line(cancelled_task: Task) -> None:
    rows = [line.split() for line in shown(report(cancelled_task)).splitlines()]
    assert ["errors", "1"] in rows
    assert ["cancelled", "20"] in rows
    assert [row[1] for row in rows if row[:1] == ["http_404"]] == ["1"]
    assert [row for row in rows if row[:1] == ["cancelled"]] == [["cancelled", "20"]]
    view = TaskProgressView()
    view.show(forecast(progress.read([cancelled_task])[0]))
    assert "errors 1  left 0  cancelled 20 " in view.line()


def test_top(cancelled_task: Task) -> None:
    meters = Meters()
    (now,) = progress.read([cancelled_task])
    meters.show(now)
    assert [*meters.errors._seen][-1][1] == 1
    assert [*meters.pages._seen][-1][1] == 3


def test_rows_that_are_to_be_written_are_said_to_be(
    cancelled_task: Task, as_role: Callable[[str], Client]
) -> None:
    Task.objects.update(unwritten=15)
    task = Task.objects.get()
    assert "8 of 23 written, the others follow" in " ".join(shown(report(task)).split())
    browser, place = as_role("operator"), f"/admin/crawlservice/task/{task.pk}/"
    page = browser.get(f"{place}change/").content.decode()
    assert "8 of 23 ledger rows are written" in page
    assert "cf-retry" not in page
    assert browser.get(f"{place}now/").status_code == 200
    Task.objects.update(unwritten=None)
    answer = browser.get(f"{place}now/")
    assert answer.status_code == 286
    assert "ledger rows are written" not in answer.content.decode()
    assert "cf-retry" in answer.content.decode()
