"""Requests that were cancelled, or that politeness ended, are not errors: they are counted
separately wherever errors are read."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import orjson
import pytest
from django.test import Client
from django.utils import timezone
from rich.console import Console

from crawlframe.frontier import Completion, Counts, Frontier
from crawlframe.run.outcome import Outcome, Verdict
from crawlservice.cli.task.report import report
from crawlservice.cli.terminal import TaskProgressView
from crawlservice.ledger.audit import audit
from crawlservice.ledger.store import DjangoLedger
from crawlservice.management.commands.top import Meters
from crawlservice.models import Event, Page, Sample, Task
from crawlservice.monitoring import charts, overview
from crawlservice.steward import sampling
from crawlservice.steward.sampling import Sampler
from crawlservice.tasks.progress import progress, summary
from crawlservice.tasks.progress.forecast import forecast
from crawlservice.tasks.retry import retry
from crawlservice.tasks.submit import cancel, submit
from crawlservice.webhooks.deliveries import body
from tests.crawlservice.programs import person, program

REASONS = {"excluded": ("robots", "usage"), "cancelled": ("cancelled",)}


@pytest.fixture(params=REASONS)
def counter(request: pytest.FixtureRequest) -> str:
    """The counter of the requests that are no errors."""
    name: str = request.param
    return name


@pytest.fixture
def ended(counter: str, ended_task: Task, add_page: Callable[..., Page]) -> Task:
    """start -> a (done), b (http_404), and 20 requests that are no errors."""
    for n in range(20):
        reason = REASONS[counter][n % len(REASONS[counter])]
        add_page(ended_task, b"x%d" % n, reason=reason, state="error", fetch_ms=0, status=None)
    ended_task.created_at = timezone.now() - timedelta(seconds=10)
    ended_task.finished_at = timezone.now()
    ended_task.na, ended_task.ne = 23, 21
    setattr(ended_task, counter, 20)
    ended_task.save()
    return ended_task


def shown(thing: Any) -> str:
    console = Console(width=200)
    with console.capture() as capture:
        console.print(thing)
    return capture.get()


@pytest.mark.parametrize("reason", ["robots", "usage"])
def test_a_row_and_redis_agree(published: Frontier, reason: str) -> None:
    task = submit("shop", {"city": "Ulm"})
    (seed,) = published.claim(1, 1, 1).requests
    outcome = Outcome(seed.rid, task.pk, seed.host, seed.record, 0, 0, url="http://a.example/")
    outcome.end(Verdict.ERROR, reason)
    for _ in range(2):  # the second time, the row is another run's
        row = DjangoLedger().commit([outcome])[seed.rid]
        assert (row.failed, row.cancelled, row.excluded) == (True, False, True)
    assert Page.objects.get().is_excluded
    published.complete([Completion(seed.rid, task.pk, seed.host, True, excluded=row.excluded)])
    counts = published.counts(task.pk)
    assert counts is not None
    assert (counts.ne, counts.cancelled, counts.excluded, counts.errors) == (1, 0, 1, 0)
    assert published.audit() == []


def test_a_row_that_a_worker_cancelled_counts_so_in_redis(published: Frontier) -> None:
    task = submit("shop", {"city": "Ulm"})
    (seed,) = published.claim(1, 1, 1).requests
    published.complete([Completion(seed.rid, task.pk, seed.host, True, cancelled=True)])
    counts = published.counts(task.pk)
    assert counts is not None
    assert (counts.ne, counts.cancelled, counts.errors) == (1, 1, 0)


def test_a_task_that_runs_counts_cancelled_ones_apart(published: Frontier) -> None:
    task = submit("shop", {"city": "Ulm"})
    cancel(task.pk)
    (one,) = progress.read([Task.objects.get()])
    assert (one.na, one.ne, one.cancelled, one.errors, one.worked) == (1, 1, 1, 0, 0)


def test_an_ended_task(ended: Task, counter: str, published: Frontier) -> None:
    (one,) = progress.read([ended])
    assert (one.ne, getattr(one, counter), one.errors, one.worked) == (21, 20, 1, 3)
    assert ended.errors == 1
    assert 0.2 < charts.rate(one) < 0.4  # pages a second, without those
    meters = Meters()
    meters.show(one)
    assert [*meters.errors._seen][-1][1] == 1
    assert [*meters.pages._seen][-1][1] == 3
    assert not [line for line in audit(ended) if counter in line]
    setattr(ended, counter, 3)
    ended.save()
    wrong = f"its counter {counter} is 3, the database has 20"
    assert [line for line in audit(ended) if wrong in line]


def test_errors_statuses_and_hosts_are_without_them(
    ended: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are neither counted, nor in the way of pages that were fetched before them."""
    monkeypatch.setattr(summary, "MAX_ROWS", 5)
    causes = summary.causes_of(ended)
    assert [(cause.reason, cause.errors) for cause in causes] == [("http_404", 1)]
    assert sum(dict(summary.statuses_of(ended)).values()) == 3
    monkeypatch.setattr(overview, "ROWS", 3)
    (host,) = overview.hosts().failing
    assert (host.pages, host.errors, host.reason) == (2, 1, "http_404")


def test_charts_and_samples(orm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = timezone.now()
    rest = dict.fromkeys(("ready", "in_progress", "delayed", "parked", "items"), 0)
    numbers = ((0, 0, 0, 0), (10, 2, 0, 0), (10, 152, 100, 50))
    names = ("nf", "ne", "excluded", "cancelled")
    samples = [
        Sample(at=begin + timedelta(seconds=10 * n), **dict(zip(names, row, strict=True)), **rest)
        for n, row in enumerate(numbers)
    ]
    chart = charts.points(samples)
    assert (chart["pages"], chart["errors"]) == ([1.2, 0.0], [0.2, 0.0])
    assert (chart["errors_total"], chart["excluded"]) == ([2, 2], [0, 100])
    assert chart["cancelled"] == [0, 50]
    monkeypatch.setattr(sampling, "SAMPLE_SECONDS", 0.0)
    Task.objects.create(
        spider="shop", seeds=b"", state="finished", na=9, ne=9, excluded=7, cancelled=1
    )
    task = Task.objects.create(spider="shop", seeds=b"")
    Sampler().tick({task.pk: Counts("running", 5, 1, 4, 0, 0, 0, 0, 0, 0, cancelled=1, excluded=3)})
    found = Sample.objects.order_by("pk").values_list("ne", "excluded", "cancelled")
    assert [*found] == [(13, 10, 2), (4, 3, 1)]


def test_where_an_ended_task_is_shown(
    ended: Task, counter: str, as_role: Callable[[str], Client]
) -> None:
    rows = [line.split() for line in shown(report(ended)).splitlines()]
    assert ["errors", "1"] in rows
    assert [row for row in rows if row[:1] == [counter]] == [[counter, "20"]]
    assert [row[1] for row in rows if row[:1] == ["http_404"]] == ["1"]
    assert not [row for row in rows if row[:1] == ["robots"]]
    view = TaskProgressView()
    view.show(forecast(progress.read([ended])[0]))
    assert f"errors 1  left 0  {counter} 20 " in view.line()
    page = as_role("operator").get(f"/admin/crawlservice/task/{ended.pk}/change/").content.decode()
    assert f"<dt>{counter.capitalize()}</dt><dd>20</dd>" in page
    told = program(person("viewer"), "read").get(f"tasks/{ended.pk}").json()
    assert (told["ne"], told[counter]) == (21, 20)
    event = Event.objects.create(task=ended, kind="finished", outcome="finished")
    assert orjson.loads(body(event))["task"][counter] == 20


def test_a_retry_runs_them_again(ended: Task, counter: str, published: Frontier) -> None:
    published.store.redis.delete(published.store.keys[0]("TASK", ended.pk))
    assert retry(ended.pk) == 21
    ended.refresh_from_db()
    assert (ended.ne, getattr(ended, counter)) == (0, 0)


@pytest.mark.parametrize("counter", ["cancelled"], indirect=True)
def test_rows_that_are_to_be_written_are_said_to_be(
    ended: Task, as_role: Callable[[str], Client]
) -> None:
    Task.objects.update(state="cancelled", unwritten=15)
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
