"""Errors of a spider are run again over its tasks: counted before, each once, a task at a time."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import DatabaseError
from django.utils import timezone

from crawlframe.conf import Settings
from crawlframe.errors import ArgumentError, FrontierError
from crawlframe.frontier import Frontier
from crawlservice.ledger.audit import audit
from crawlservice.ledger.reconcile import Reconciliation
from crawlservice.models import Action, BulkRetry, ErrorGroup, Page, Task
from crawlservice.steward.steward import Steward
from crawlservice.tasks import bulk_retry
from crawlservice.tasks.bulk_retry import WantedErrors, extent, start, step, stop, work
from crawlservice.tasks.spider_switch import SpiderDisabled, disable
from crawlservice.tasks.submit import WrongState
from tests.crawlservice.conftest import redis_at
from tests.crawlservice.graph import GraphCrawl
from tests.crawlservice.web import log_in_as, rows, texts

pytestmark = pytest.mark.usefixtures("few_chores")
both = pytest.mark.databases("sqlite", "postgres")

WHO: dict[str, Any] = {"command": True}
GRAPH = WantedErrors("graph")


def crawled(frontier: Frontier, ends: bool = True) -> GraphCrawl:
    crawl = GraphCrawl(frontier, pages=30)
    while crawl.work(frontier, 50):
        pass
    if ends:
        crawl.check_end(frontier)
    return crawl


def errors(crawl: GraphCrawl) -> int:
    return Page.objects.filter(task=crawl.task, state=Page.State.ERROR).count()


def state_of(crawl: GraphCrawl) -> str:
    return Task.objects.get(pk=crawl.task.pk).state


def again(frontier: Frontier, crawl: GraphCrawl, failed: int) -> None:
    """The task runs to its end, and as many fail once more."""
    Reconciliation(Task.objects.get(pk=crawl.task.pk), frontier).run()
    while crawl.work(frontier, 50, 10 + crawl.task.pk):  # as another node
        pass
    crawl.check_end(frontier)
    assert audit(Task.objects.get(pk=crawl.task.pk)) == []
    assert errors(crawl) == failed


@both
def test_it_is_counted_before_and_each_error_runs_again_once(service: Frontier) -> None:
    crawls = [crawled(service), crawled(service)]
    failed = [errors(crawl) for crawl in crawls]
    found = extent(GRAPH)
    assert found.tasks == [(c.task.pk, n) for c, n in zip(crawls, failed, strict=True)]
    assert found.errors == sum(failed) > 2
    row = start(GRAPH, WHO)
    assert (row.all_tasks, row.all_errors, row.left) == (2, sum(failed), 2)
    assert step(row.pk)
    assert [state_of(crawl) for crawl in crawls] == ["running", "finished"]
    assert bulk_retry.get(row.pk).left == 1
    again(service, crawls[0], failed[0])
    assert not step(row.pk)
    again(service, crawls[1], failed[1])
    row = bulk_retry.get(row.pk)
    assert (row.state, row.retried_tasks, row.retried_errors) == ("done", 2, sum(failed))
    assert row.finished_at is not None
    assert not step(row.pk)
    work()
    assert {state_of(crawl) for crawl in crawls} == {"finished"}
    verbs = Action.objects.order_by("pk").values_list("verb", "task")
    assert [*verbs] == [("retry errors", None), *(("retry", c.task.pk) for c in crawls)]


def test_the_steward_runs_a_bulk_retry(service: Frontier) -> None:
    crawl = crawled(service)
    row = start(GRAPH, WHO)
    Steward(Settings(), service).tick()
    assert bulk_retry.get(row.pk).state == "done"
    assert state_of(crawl) == "running"


@both
def test_only_the_chosen_errors_are_retried(service: Frontier) -> None:
    crawl = crawled(service)
    group = ErrorGroup.objects.get()
    one = Page.objects.filter(state=Page.State.ERROR).order_by("pk").first()
    assert one is not None
    Page.objects.filter(pk=one.pk).update(error_group=17, reason="timeout")
    ErrorGroup.objects.create(id=17, spider="graph", reason="timeout")
    assert extent(WantedErrors("graph", "timeout")).errors == 1
    assert extent(WantedErrors("graph", group=group.pk)).errors == errors(crawl) - 1
    assert extent(WantedErrors("graph", since=timezone.now() + timedelta(hours=1))).errors == 0
    assert extent(WantedErrors("other")).errors == 0
    with pytest.raises(ArgumentError, match="is not one of spider 'graph'"):
        extent(WantedErrors("graph", "timeout", group.pk))
    row = start(WantedErrors("graph", group=17), WHO)
    while step(row.pk):
        pass
    assert not Page.objects.filter(pk=one.pk).exists()
    assert errors(crawl) > 0


@both
def test_only_errors_of_that_time_and_later(service: Frontier) -> None:
    crawl = crawled(service)
    now = timezone.now()
    one, other, *_ = Page.objects.filter(state=Page.State.ERROR).order_by("pk")
    Page.objects.update(created_at=now - timedelta(minutes=1))
    Page.objects.filter(pk=one.pk).update(created_at=now)
    since = WantedErrors("graph", since=now)
    assert extent(since).errors == 1  # those after it are older
    row = start(since, WHO)
    while step(row.pk):
        pass
    assert bulk_retry.get(row.pk).retried_errors == 1
    assert Page.objects.filter(pk=other.pk).exists()
    assert errors(crawl)


def test_tasks_that_still_run_are_left_out(service: Frontier) -> None:
    ended, running = crawled(service), GraphCrawl(service, pages=30)
    for _ in range(4):
        running.work(service, 4)
    assert errors(running)
    found = extent(GRAPH)
    assert found.tasks == [(ended.task.pk, errors(ended))]
    assert (found.active, found.active_errors) == (1, errors(running))
    Task.objects.filter(pk=ended.task.pk).update(state=Task.State.RUNNING)
    with pytest.raises(WrongState, match="no such errors to retry; 2 tasks"):
        start(GRAPH, WHO)
    assert not BulkRetry.objects.exists()


def test_a_task_that_changed_meanwhile_is_skipped_and_named(service: Frontier) -> None:
    first, second = crawled(service), crawled(service)
    row = start(GRAPH, WHO)
    Task.objects.filter(pk=first.task.pk).update(state=Task.State.RUNNING)
    while step(row.pk):
        pass
    row = bulk_retry.get(row.pk)
    assert (row.skipped_tasks, row.retried_tasks) == (1, 1)
    assert row.skipped[0][0] == first.task.pk
    assert "is running" in row.skipped[0][1]
    assert errors(second) == 0


def test_without_redis_it_waits_and_says_so(service: Frontier) -> None:
    crawl = crawled(service)
    row = start(GRAPH, WHO)
    with redis_at("redis://127.0.0.1:1/0"), pytest.raises(FrontierError):
        step(row.pk)
    row = bulk_retry.get(row.pk)
    assert (row.position, row.state) == (0, "running")
    assert "Redis" in row.problem
    assert state_of(crawl) == "finished"


@both
def test_what_the_database_refuses_is_shown_too(
    service: Frontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl = crawled(service)
    row = start(GRAPH, WHO)

    def refuse(*given: Any, **more: Any) -> int:
        raise DatabaseError("canceling statement\ndue to statement timeout")

    with monkeypatch.context() as patch:
        patch.setattr(bulk_retry, "retry", refuse)
        with pytest.raises(DatabaseError):
            step(row.pk)
    row = bulk_retry.get(row.pk)
    assert row.problem == "canceling statement due to statement timeout"
    assert not step(row.pk)
    assert bulk_retry.get(row.pk).problem == ""
    assert state_of(crawl) == "running"


def test_a_bulk_retry_can_be_stopped(service: Frontier) -> None:
    crawls = [crawled(service), crawled(service)]
    row = start(GRAPH, WHO)
    step(row.pk)
    assert stop(row.pk, WHO).state == "stopped"
    assert not step(row.pk)
    assert state_of(crawls[1]) == "finished"
    with pytest.raises(WrongState, match="is stopped already"):
        stop(row.pk, WHO)


def test_too_much_or_disabled_is_refused(
    service: Frontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawled(service)
    with monkeypatch.context() as patch:
        patch.setattr(bulk_retry, "MAX_ERRORS", 1)
        with pytest.raises(ArgumentError, match="more than 1 errors"):
            start(GRAPH, WHO)
    disable("graph", "broken", WHO)
    with pytest.raises(SpiderDisabled):
        start(GRAPH, WHO)


def test_the_command_counts_asks_and_tells(service: Frontier) -> None:
    crawl = crawled(service)
    failed = errors(crawl)
    with pytest.raises(CommandError, match="no terminal to ask at"):
        call_command("task", "retry", "--spider", "graph", stdout=StringIO())
    assert errors(crawl) == failed
    out = StringIO()
    call_command("task", "retry", "--spider", "graph", "--since", "2h", "--yes", stdout=out)
    assert out.getvalue().splitlines() == [
        f"{failed} errors in 1 ended tasks of graph",
        f"1 of 1 tasks: {failed} of {failed} requests",
        "Undo: python manage.py task cancel ID, for each task",
    ]
    assert state_of(crawl) == "running"


def test_wrong_commands_are_explained(service: Frontier) -> None:
    for arguments, told in (
        ([], "give the number of a task, or --spider"),
        (["7", "--spider", "graph"], "not both"),
        (["7", "--reason", "timeout"], "--reason needs --spider"),
        (["--spider", "graph", "--since", "yesterday"], "is no time"),
        (["--spider", "graph", "--since", "999999d"], "is no time"),
        (["--spider", "graph", "--since", "0001-01-01T00:00"], "is no time"),
        (["--spider", "graph", "--yes"], "no such errors"),
    ):
        with pytest.raises(CommandError, match=re.escape(told)):
            call_command("task", "retry", *arguments, stdout=StringIO())


def test_the_pages_show_how_many_and_how_far(
    service: Frontier, as_role: Callable[[str], Any]
) -> None:
    crawl = crawled(service)
    failed = errors(crawl)
    client = log_in_as("operator")
    page = client.get("/admin/errors/retry/?spider=graph").content.decode()
    assert texts(page, "strong")[-2:] == [str(failed), "1"]
    sent = client.post("/admin/errors/retry/", {"spider": "graph", "since": "", "group": ""})
    row = BulkRetry.objects.get()
    assert sent["Location"] == f"/admin/errors/retries/{row.pk}/"
    assert row.user is not None
    now = client.get(f"{sent['Location']}now/")
    assert now.status_code == 200
    assert f"0 of {failed}" in now.content.decode()
    step(row.pk)
    now = client.get(f"{sent['Location']}now/")
    assert (now.status_code, f"{failed} of {failed}" in now.content.decode()) == (286, True)
    again = client.post(f"{sent['Location']}stop/", follow=True).content.decode()
    assert "is done already" in again
    assert rows(client.get("/admin/errors/").content.decode())[-1][3] == "done"
    viewer = log_in_as("viewer")
    assert viewer.get("/admin/errors/retry/?spider=graph").status_code == 403
    assert viewer.get(sent["Location"]).status_code == 200
    assert viewer.post(f"{sent['Location']}stop/").status_code == 403


def test_wrong_filters_of_the_page_are_explained(service: Frontier) -> None:
    client = log_in_as("operator")
    for since in ("soon", "0001-01-01T00:00%2B14:00", "9999-01-01T00:00"):
        page = client.get(f"/admin/errors/retry/?spider=graph&since={since}").content.decode()
        assert "The time is wrong" in page
    for place in ("", "retry/"):
        found = client.get(f"/admin/errors/{place}?spider=a%00b&reason=%00&span=no&group=-1")
        assert found.status_code == 200
    sent = client.post("/admin/errors/retry/", {"spider": "graph"}).content.decode()
    assert "no such errors" in sent
