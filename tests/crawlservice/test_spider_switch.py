"""A spider that is disabled is started by nothing; its running tasks continue."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.utils import timezone

from crawlframe.errors import ArgumentError
from crawlframe.frontier import Frontier
from crawlservice.models import Action, DisabledSpider, Event, Schedule, Task
from crawlservice.scheduling.schedules import run_now, start_due
from crawlservice.tasks.retry import retry
from crawlservice.tasks.spider_switch import SpiderDisabled, disable, disabled, enable
from crawlservice.tasks.submit import submit
from tests.crawlservice.web import cells, log_in_as

WHO = {"command": True}


def due(**fields: object) -> Schedule:
    next_at = timezone.now() - timedelta(seconds=1)
    values = {"name": "daily", "spider": "shop", "arguments": {"city": "Ulm"}, "every": 3600}
    return Schedule.objects.create(**{**values, "next_at": next_at, **fields})


def test_submissions_are_refused_with_the_reason(published: Frontier) -> None:
    disable("shop", "the site asked us to stop", WHO)
    with pytest.raises(SpiderDisabled, match="'shop' is disabled: the site asked us to stop"):
        submit("shop", {"city": "Ulm"})
    assert not Task.objects.exists()
    assert enable("shop", WHO)
    assert submit("shop", {"city": "Ulm"}).pk
    assert [*Action.objects.order_by("pk").values_list("verb", flat=True)] == [
        "disable spider",
        "enable spider",
    ]


def test_schedules_skip_it_which_is_no_problem_of_theirs(published: Frontier) -> None:
    schedule = due()
    disable("shop", "broken", WHO)
    start_due()
    (run,) = schedule.runs.all()
    assert (run.outcome, run.problem) == ("skipped", "the spider is disabled: broken")
    schedule.refresh_from_db()
    assert schedule.problem == ""
    assert schedule.next_at is not None
    assert schedule.next_at > timezone.now()
    assert not Event.objects.exists()
    assert not Task.objects.exists()
    with pytest.raises(SpiderDisabled):
        run_now(schedule)


def test_runs_that_wait_for_the_last_one_are_skipped(published: Frontier) -> None:
    schedule = due(overlap=Schedule.Overlap.QUEUE)
    start_due()
    Schedule.objects.update(next_at=timezone.now() - timedelta(milliseconds=5))
    start_due()
    assert [*schedule.runs.order_by("pk").values_list("outcome", flat=True)] == [
        "submitted",
        "waiting",
    ]
    disable("shop", "broken", WHO)
    Task.objects.update(state=Task.State.FINISHED)
    start_due()
    assert [*schedule.runs.order_by("pk").values_list("outcome", flat=True)] == [
        "submitted",
        "skipped",
    ]


def test_running_tasks_go_on_and_ended_ones_are_not_retried(
    published: Frontier, ended_task: Task
) -> None:
    running = submit("shop", {"city": "Bonn"})
    disable("shop", "broken", WHO)
    running.refresh_from_db()
    assert running.state == Task.State.RUNNING
    with pytest.raises(SpiderDisabled):
        retry(ended_task.pk)
    ended_task.refresh_from_db()
    assert ended_task.state == Task.State.FINISHED


def test_a_reason_is_needed(published: Frontier) -> None:
    for reason, told in ((" \n", "give the reason"), ("x" * 501, "501")):
        with pytest.raises(ArgumentError, match=told):
            disable("shop", reason, WHO)
    assert not DisabledSpider.objects.exists()
    assert not Action.objects.exists()


def test_another_reason_replaces_the_first(published: Frontier) -> None:
    disable("shop", "broken", WHO)
    disable("shop", "the site is down", WHO)
    assert {name: row.reason for name, row in disabled().items()} == {"shop": "the site is down"}
    assert not enable("other", WHO)


def spider(*arguments: str) -> str:
    out = StringIO()
    call_command("spider", *arguments, stdout=out, stderr=out)
    return out.getvalue()


def test_the_command_lists_disables_and_enables(published: Frontier, ended_task: Task) -> None:
    assert "disabled" in spider("disable", "shop", "the site\nasked")
    listed = spider("list")
    assert "finished with errors" in listed
    assert "published" in listed
    assert "shop is disabled: the site asked" in listed
    Schedule.objects.create(name="night", spider="shop", every=60)
    out = StringIO()
    call_command("schedule", "list", stdout=out)
    assert "night is skipped: its spider is disabled: the site asked" in out.getvalue()
    assert "is enabled" in spider("enable", "shop")
    assert "was not disabled" in spider("enable", "shop")
    assert Action.objects.filter(detail__command=True).count() == 2


def test_wrong_commands_are_explained(published: Frontier) -> None:
    for arguments, told in (
        (["enable"], "required: name"),
        (["disable", "shop"], "required: reason"),
        (["disable", "shp", "no"], "no spider 'shp' was ever published"),
        (["disable", "shop", " "], "give the reason"),
    ):
        with pytest.raises(CommandError, match=told):
            spider(*arguments)


def test_schedules_say_it_in_their_list(published: Frontier) -> None:
    due(next_at=timezone.now() + timedelta(hours=1))
    client = log_in_as("operator")
    place = "/admin/crawlservice/schedule/"
    assert "spider is disabled" not in client.get(place).content.decode()
    disable("shop", "broken", WHO)
    assert cells(client.get(place).content.decode(), "next_run") == [
        "skipped: the spider is disabled"
    ]
