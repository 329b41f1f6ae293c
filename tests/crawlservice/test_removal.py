"""Removal: old tasks are deleted with all their data, and nothing else is."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from crawlframe.frontier import Frontier, TaskLimits
from crawlservice.models import (
    Action,
    Delivery,
    Event,
    Item,
    Page,
    Run,
    Sample,
    Schedule,
    Task,
    Webhook,
)
from crawlservice.tasks import removal
from crawlservice.tasks.removal import RemovalExtent, ended_before, extent, remove
from crawlservice.tasks.retry import retry
from crawlservice.tasks.submit import submit
from tests.crawlservice.web import log_in_as

both = pytest.mark.databases("sqlite", "postgres")

NUMBERS = dict.fromkeys(("nf", "ne", "items", "ready", "in_progress", "delayed", "parked"), 0)
Make = Callable[..., Task]


@pytest.fixture
def make(published: Frontier, add_page: Callable[..., Page]) -> Make:
    """An ended task with everything that can belong to one: ``make(days ago, spider, pages)``."""
    webhook = Webhook.objects.create(name="all", url="http://receiver.example/", sealed_secret="s")
    schedule = Schedule.objects.create(name="daily", spider="shop", every=60)

    def add(days: float, spider: str = "shop", pages: int = 3, **fields: Any) -> Task:
        ended = {"state": "finished", "finished_at": ago(days)}
        numbers = {"na": pages + 1, "nf": pages, "ne": 1, "items": pages}
        task = Task.objects.create(spider=spider, seeds=b"", **{**ended, **numbers, **fields})
        for n in range(pages):
            add_page(task, b"%d" % n, items=[{"n": n}])
        add_page(task, b"bad", state=Page.State.ERROR, reason="http_404")
        event = Event.objects.create(task=task, kind="finished", delivered_at=ago(days))
        Delivery.objects.create(webhook=webhook, event=event, next_at=None)
        Sample.objects.create(task=task, **NUMBERS)
        Run.objects.create(schedule=schedule, due_at=ago(days), task=task)
        Action.objects.create(verb="submit", task=task)
        return task

    return add


def ago(days: float) -> datetime:
    return timezone.now() - timedelta(days=days)


def prune(*arguments: object) -> str:
    out = StringIO()
    call_command("task", "prune", *map(str, arguments), stdout=out, stderr=out)
    return out.getvalue()


def left() -> list[int]:
    """The remaining tasks; checks that they are complete, and that nothing is left of others."""
    tasks = [*Task.objects.order_by("pk").values_list("pk", flat=True)]
    for model in (Page, Item, Event, Sample, Run):
        found = model._default_manager.exclude(task=None).values_list("task", flat=True)
        assert {*found} == {*tasks}, model
    assert Delivery.objects.count() == Event.objects.count() == len(tasks)
    for task in Task.objects.all():
        assert (task.page_set.count(), task.item_set.count()) == (task.nf + task.ne, task.items)
    return tasks


@both
def test_old_tasks_go_with_all_that_they_brought(make: Make) -> None:
    old, young = make(31), make(29)
    cancelled = make(40, state="cancelled")
    open_one = make(50, state="paused", finished_at=None)
    text = prune("--tasks-older-than", 30, "--yes")
    assert left() == [young.pk, open_one.pk]
    assert "deleted: 2 tasks, 8 pages, 6 items" in text
    assert Run.objects.count() == 4  # the runs of the schedule stay
    told = Action.objects.order_by("pk")
    # and the journal still names the tasks
    assert {*told.filter(verb="submit").values_list("task", flat=True)} >= {old.pk, cancelled.pk}
    assert told.last().verb == "prune"  # type: ignore[union-attr]
    assert told.last().detail == {  # type: ignore[union-attr]
        "command": True, "days": 30, "tasks": 2, "pages": 8, "items": 6,
    }  # fmt: skip


def test_only_tasks_of_a_spider_are_removed(make: Make) -> None:
    make(31, "shop")
    other = make(31, "site")
    prune("--tasks-older-than", 30, "--spider", "shop", "--yes")
    assert left() == [other.pk]


def test_only_named_tasks_are_removed(make: Make) -> None:
    one, other, open_one = make(2), make(31), make(2, state="running", finished_at=None)
    text = prune("--task", one.pk, open_one.pk, "--yes")
    assert "1 tasks, 4 pages, 3 items: tasks that ended before" in text
    assert left() == [other.pk, open_one.pk]
    assert "there are no tasks" in prune("--task", open_one.pk, "--yes")
    with pytest.raises(CommandError, match="one of the arguments"):
        prune("--yes")


def test_a_dry_run_tells_how_much_it_would_be(make: Make) -> None:
    task = make(31)
    text = prune("--tasks-older-than", 30, "--dry-run", "--yes")
    assert "1 tasks, 4 pages, 3 items: tasks that ended before" in text
    assert "Nothing was changed. Without --dry-run, this would delete them" in text
    assert left() == [task.pk]
    assert "there are no tasks of site" in prune("--tasks-older-than", 30, "--spider", "site")
    assert not Action.objects.filter(verb="prune").exists()


def test_administrators_delete_ended_tasks_in_the_admin(make: Make) -> None:
    one, two, other, open_one = (make(n) for n in range(1, 5))
    Task.objects.filter(pk=open_one.pk).update(state="running", finished_at=None)
    admin = log_in_as("administrator")
    listing = "/admin/crawlservice/task/"
    chosen = {"action": "delete_selected", "_selected_action": [one.pk, two.pk]}
    asked = admin.post(listing, chosen).content.decode()
    assert "8" in asked  # pages
    assert len(left()) == 4
    admin.post(listing, {**chosen, "post": "yes"})
    assert left() == [other.pk, open_one.pk]
    told = Action.objects.get(verb="delete_task")
    assert told.detail == {"tasks": [one.pk, two.pk], "pages": 8, "items": 6}
    assert told.name == "administrator"

    # None is deleted if one may not be.
    chosen = {**chosen, "_selected_action": [other.pk, open_one.pk], "post": "yes"}
    assert "has not ended" in admin.post(listing, chosen).content.decode()
    assert left() == [other.pk, open_one.pk]

    page = f"{listing}{other.pk}"
    assert f"{page}/delete/" in admin.get(f"{page}/change/").content.decode()
    assert "Are you sure" in admin.get(f"{page}/delete/").content.decode()
    admin.post(f"{page}/delete/", {"post": "yes"})
    assert left() == [open_one.pk]
    page = f"{listing}{open_one.pk}"
    assert f"{page}/delete/" not in admin.get(f"{page}/change/").content.decode()
    assert "has not ended" in admin.post(f"{page}/delete/", {"post": "yes"}).content.decode()
    assert left() == [open_one.pk]


def test_more_than_a_page_can_wait_for_is_not_deleted_in_it(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawlservice.admin.tasks.tasks.MAX_DELETED_ROWS", 7)
    task = make(1)
    admin = log_in_as("administrator")
    page = f"/admin/crawlservice/task/{task.pk}/delete/"
    assert "manage.py task prune --task" in admin.post(page, {"post": "yes"}).content.decode()
    assert left() == [task.pk]


def test_operators_delete_nothing(make: Make) -> None:
    task = make(1)
    operator = log_in_as("operator")
    page = f"/admin/crawlservice/task/{task.pk}"
    assert f"{page}/delete/" not in operator.get(f"{page}/change/").content.decode()
    assert operator.post(f"{page}/delete/", {"post": "yes"}).status_code == 403
    chosen = {"action": "delete_selected", "_selected_action": [task.pk], "post": "yes"}
    operator.post("/admin/crawlservice/task/", chosen)
    assert left() == [task.pk]


@pytest.mark.parametrize("answer", ["", "n", "never"])
def test_without_a_yes_nothing_is_deleted(
    make: Make, answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = make(31)
    with pytest.raises(CommandError, match="give --yes"):
        prune("--tasks-older-than", 30)  # there is no terminal to ask at
    monkeypatch.setattr(sys, "stdin", Terminal(f"{answer}\n"))
    with pytest.raises(CommandError, match="nothing was deleted"):
        prune("--tasks-older-than", 30)
    assert left() == [task.pk]


def test_with_a_yes_they_are_deleted(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    make(31)
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    prune("--tasks-older-than", 30)
    assert left() == []


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_days_are_a_number(published: Frontier) -> None:
    for days in (
        "-1",
        "x",
        "1.5",
        "999999",
    ):
        with pytest.raises(CommandError, match="whole number of days"):
            prune(f"--tasks-older-than={days}")


@both
def test_a_large_task_goes_piece_by_piece(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removal, "ROWS_PER_DELETE", 3)
    for pages in (7, 1, 0, 9):
        make(31, pages=pages)
    young = make(1, pages=7)
    tasks = ended_before(ago(30))
    whole = extent(tasks)
    steps = [*remove(tasks)]
    assert RemovalExtent(*map(sum, zip(*steps, strict=True))) == whole == RemovalExtent(4, 21, 17)
    assert all(some.items <= 3 and some.pages <= 3 for some in steps)
    assert left() == [young.pk]


def test_many_small_ones_go_together(make: Make) -> None:
    for _ in range(6):
        make(31, pages=1)
    with CaptureQueriesContext(connection) as queries:
        assert [*remove(ended_before(ago(30)))] == [RemovalExtent(6, 12, 6)]
    assert len(queries) < 30


@both
def test_one_that_runs_again_meanwhile_stays(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removal, "ROWS_PER_DELETE", 3)
    first, second = make(31, pages=7), make(31, pages=7)
    small = make(31, pages=0)
    steps = remove(ended_before(ago(30)))
    next(steps)
    for task in (second, small):
        retry(task.pk)
    assert sum(some.tasks for some in steps) == 1
    assert [*Task.objects.values_list("pk", flat=True).order_by("pk")] == [second.pk, small.pk]
    assert Page.objects.filter(task=second).count() == 7
    assert not Page.objects.filter(task=first).exists()


@both
def test_what_was_cut_short_is_removed_by_the_next(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "ROWS_PER_DELETE", 3)
    make(31, pages=7)
    steps = remove(ended_before(ago(30)))
    next(steps)
    steps.close()  # type: ignore[attr-defined]
    assert Item.objects.count() == 4
    prune("--tasks-older-than", 30, "--yes")
    assert left() == []


def test_redis_forgets_them_and_what_it_has_requests_of_stays(
    make: Make, published: Frontier
) -> None:
    told_late = make(31)  # its process died before it updated Redis
    published.open_task(told_late.pk, TaskLimits(), [])
    strange = submit("shop", {"city": "Ulm"}).pk
    Task.objects.filter(pk=strange).update(state="finished", finished_at=ago(31))
    prune("--tasks-older-than", 30, "--yes")
    assert [*Task.objects.values_list("pk", flat=True)] == [strange]
    assert published.open_tasks() == [strange]
