"""Requests that politeness ended are not errors: they are counted separately wherever errors are
read."""

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
from crawlservice.cli.report import report
from crawlservice.cli.terminal import TaskProgressView
from crawlservice.ledger.audit import audit
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import Event, Page, Sample, Task
from crawlservice.monitoring import charts, overview
from crawlservice.steward import sampling
from crawlservice.steward.sampling import Sampler
from crawlservice.tasks.progress import progress, summary
from crawlservice.tasks.progress.forecast import forecast
from crawlservice.tasks.retry import retry
from crawlservice.tasks.submit import submit
from crawlservice.webhooks.deliveries import body
from tests.crawlservice.programs import person, program

EXCLUDED = {"state": "error", "fetch_ms": 0, "status": None}


@pytest.fixture
def polite_task(ended_task: Task, add_page: Callable[..., Page]) -> Task:
    """start -> a (done), b (http_404), and 20 requests that were excluded for three reasons."""
    for n in range(20):
        reason = ("robots", "usage")[n % 2]
        add_page(ended_task, b"x%d" % n, reason=reason, **EXCLUDED)
    ended_task.created_at = timezone.now() - timedelta(seconds=10)
    ended_task.finished_at = timezone.now()
    ended_task.na, ended_task.ne, ended_task.excluded = 23, 21, 20
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


def test_an_ended_task(polite_task: Task) -> None:
    (one,) = progress.read([polite_task])
    assert (one.ne, one.excluded, one.errors, one.worked) == (21, 20, 1, 3)
    assert polite_task.errors == 1
    assert 0.2 < charts.rate(one) < 0.4  # pages a second, without excluded requests


def test_the_audit_counts_them(polite_task: Task, published: Frontier) -> None:
    assert not [line for line in audit(polite_task) if "excluded" in line]
    polite_task.excluded = 3
    polite_task.save()
    wrong = "its counter excluded is 3, the database has 20"
    assert [line for line in audit(polite_task) if wrong in line]


def test_errors_statuses_and_hosts_are_without_them(
    polite_task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summary, "MAX_ROWS", 5)
    causes = summary.causes_of(polite_task)
    assert [(cause.reason, cause.errors) for cause in causes] == [("http_404", 1)]
    assert sum(dict(summary.statuses_of(polite_task)).values()) == 3
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


def test_the_report_and_the_live_line(polite_task: Task) -> None:
    rows = [line.split() for line in shown(report(polite_task)).splitlines()]
    assert ["errors", "1"] in rows
    assert ["excluded", "20"] in rows
    assert not [row for row in rows if row[:1] == ["robots"]]
    view = TaskProgressView()
    view.show(forecast(progress.read([polite_task])[0]))
    assert "errors 1  left 0  excluded 20 " in view.line()


def test_the_page_of_the_task(polite_task: Task, as_role: Callable[[str], Client]) -> None:
    place = f"/admin/crawlservice/task/{polite_task.pk}/"
    page = as_role("viewer").get(f"{place}change/").content.decode()
    assert "<dt>Excluded</dt><dd>20</dd>" in page


def test_the_api(polite_task: Task) -> None:
    told = program(person("viewer"), "read").get(f"tasks/{polite_task.pk}").json()
    assert (told["ne"], told["excluded"]) == (21, 20)


def test_a_retry_runs_them_again(polite_task: Task, published: Frontier) -> None:
    published.store.redis.delete(published.store.keys[0]("TASK", polite_task.pk))
    assert retry(polite_task.pk) == 21
    polite_task.refresh_from_db()
    assert (polite_task.ne, polite_task.excluded) == (0, 0)


def test_a_webhook_counts_excluded_requests(polite_task: Task) -> None:
    event = Event.objects.create(task=polite_task, kind="finished", outcome="finished")
    assert orjson.loads(body(event))["task"]["excluded"] == 20
