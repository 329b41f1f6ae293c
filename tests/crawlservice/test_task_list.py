"""The list of tasks: numbers against the run before."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from crawlframe.frontier import Frontier
from crawlservice.display import sparkline
from crawlservice.models import Task
from crawlservice.tasks.progress import run_history
from crawlservice.tasks.progress.run_history import histories
from tests.crawlservice.web import cells, log_in_as, texts

LIST = "/admin/crawlservice/task/"


def ran(spider: str = "shop", **fields: Any) -> Task:
    at = timezone.now()
    values: dict[str, Any] = {"state": Task.State.FINISHED, "outcome": Task.Outcome.FINISHED}
    values |= {"created_at": at - timedelta(seconds=60), "finished_at": at, "arguments_hash": 1}
    return Task.objects.create(spider=spider, seeds=b"", **{**values, **fields})


@pytest.mark.usefixtures("service")
class TestHistory:
    def test_the_last_run_with_the_same_arguments_counts(self) -> None:
        first = ran(items=10)
        ran(items=99, arguments_hash=2)
        ran(items=1, outcome=Task.Outcome.CANCELLED)
        ran("other", items=5)
        last = ran(items=7, ne=3, cancelled=1)
        found = histories([last])[last.pk]
        assert found.before is not None
        assert (found.before.task, found.before.items, found.same) == (first.pk, 10, True)
        assert found.items == [10, 99, 7]

    def test_without_one_the_last_run_of_the_spider_counts(self) -> None:
        first, last = ran(items=10, ne=5, excluded=2), ran(arguments_hash=3)
        found = histories([last, first])
        before = found[last.pk].before
        assert before is not None
        assert (before.task, before.errors, found[last.pk].same) == (first.pk, 3, False)
        assert found[first.pk].before is None

    def test_tasks_far_apart_have_their_history_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(run_history, "RUNS", 3)
        monkeypatch.setattr(run_history, "SLACK", 0)
        tasks = [ran(items=n) for n in range(12)]
        found = histories([tasks[4], tasks[11]])
        assert found[tasks[11].pk].items == [8, 9, 10, 11]
        assert found[tasks[4].pk].items == [1, 2, 3, 4]

    def test_one_query_a_spider(self) -> None:
        tasks = [ran(items=n) for n in range(9)] + [ran("other")]
        with CaptureQueriesContext(connection) as queries:
            histories(tasks)
        assert len(queries) == 2


def test_the_list_shows_what_changed(service: Frontier) -> None:
    ran(items=1200, nf=600)
    ran(items=1000, nf=599, ne=1, outcome=Task.Outcome.FINISHED_WITH_ERRORS)
    ran(state=Task.State.RUNNING, outcome="", finished_at=None)
    page = log_in_as("viewer").get(LIST).content.decode()
    assert cells(page, "item_count") == ["0", "1,000 −200", "1,200"]
    assert cells(page, "errors") == ["0", "1 +1", "0"]
    assert cells(page, "took")[1].startswith("1:00")
    assert cells(page, "rate")[1:] == ["10.0", "10.0"]
    assert [text.split()[0] for text in cells(page, "shown_state")] == [
        "running",
        "finished",
        "finished",
    ]
    assert texts(page, ".cf-spark title") == ["1,200, 1,000", "1,200, 1,000"]


def test_a_line_needs_two_points() -> None:
    assert sparkline([7]) == ""
    assert 'points="2.0,18.0 78.0,2.0"' in sparkline([0, 4])
    assert 'points="2.0,18.0 78.0,18.0"' in sparkline([0, 0])
