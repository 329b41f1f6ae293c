"""The list of tasks: numbers against the run before, and saved views."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from crawlframe.errors import ArgumentError
from crawlframe.frontier import Frontier
from crawlservice.display import sparkline
from crawlservice.models import Action, SavedView, Task
from crawlservice.tasks import saved_views
from crawlservice.tasks.progress import run_history
from crawlservice.tasks.progress.run_history import histories
from crawlservice.tasks.saved_views import filters_of, save
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


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ("?status=failed&spider=shop", "status=failed&spider=shop"),
        ("before=7&p=2&label=domain%3Dnews&evil=1&_changelist_filters=x", "label=domain%3Dnews"),
        ("", ""),
    ],
)
def test_only_filters_are_kept(query: str, kept: str) -> None:
    assert filters_of(query) == kept


def test_a_view_is_kept_for_its_user_and_shared_if_they_want(service: Frontier) -> None:
    ann, bob = log_in_as("operator"), log_in_as("viewer")
    ran(outcome=Task.Outcome.FAILED)
    ran()
    filtered = f"{LIST}?status=failed"
    assert "Save this view" in ann.get(filtered).content.decode()
    assert "Save this view" not in ann.get(LIST).content.decode()
    sent = ann.post("/admin/views/save/", {"name": " Red  ones ", "query": "status=failed"})
    assert sent["Location"] == filtered
    own = ann.get(filtered).content.decode()
    assert texts(own, "#cf-views .cf-chosen .cf-chip") == ["Red ones"]
    assert len(cells(own, "id")) == 1
    assert texts(bob.get(LIST).content.decode(), "#cf-views .cf-chip") == []
    ann.post("/admin/views/save/", {"name": "Red ones", "query": "status=failed", "shared": "on"})
    assert texts(bob.get(LIST).content.decode(), "#cf-views .cf-chip") == ["Red ones operator"]
    view = SavedView.objects.get()
    assert bob.post(f"/admin/views/{view.pk}/delete/").status_code == 403
    assert ann.post(f"/admin/views/{view.pk}/delete/").status_code == 302
    assert not SavedView.objects.exists()
    verbs = Action.objects.filter(verb__endswith="view").order_by("pk")
    assert [*verbs.values_list("verb", flat=True)] == [
        "save saved view",
        "save saved view",
        "delete saved view",
    ]


def test_an_administrator_deletes_what_others_share(service: Frontier) -> None:
    user = User.objects.create_user("ann")
    shared = save(user, "all", "", shared=True, who={"user": user})
    own = save(user, "mine", "", shared=False, who={"user": user})
    boss = log_in_as("administrator")
    assert boss.post(f"/admin/views/{own.pk}/delete/").status_code == 403
    assert boss.post(f"/admin/views/{shared.pk}/delete/").status_code == 302


def test_bad_views_are_refused(service: Frontier, monkeypatch: pytest.MonkeyPatch) -> None:
    user = User.objects.create_user("ann")
    who = {"user": user}
    for name in (" ", "x" * 61):
        with pytest.raises(ArgumentError, match="a name of 1 to 60"):
            save(user, name, "", shared=False, who=who)
    with pytest.raises(ArgumentError, match="more than 1000 characters"):
        save(user, "long", f"spider={'x' * 1000}", shared=False, who=who)
    monkeypatch.setattr(saved_views, "MAX_VIEWS", 1)
    save(user, "one", "spider=a", shared=False, who=who)
    save(user, "one", "spider=b", shared=False, who=who)
    with pytest.raises(ArgumentError, match="delete one first"):
        save(user, "two", "", shared=False, who=who)
    assert SavedView.objects.get().query == "spider=b"
