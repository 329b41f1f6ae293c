"""Schedules in the admin and in the terminal: forms, rows and rights."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from django.utils import timezone
from django.utils.translation import override

from crawlframe.frontier import Frontier
from crawlservice.models import Action, Run, Schedule, Task
from crawlservice.scheduling.timing import in_words
from crawlservice.tasks.submit import submit
from tests.crawlservice.conftest import redis_at
from tests.crawlservice.web import act, counted, log_in_as

LIST = "/admin/crawlservice/schedule/"
FORM = {
    "name": "daily", "spider": "shop", "arguments": '{"city": "Ulm"}', "priority": "0",
    "cron": "0 6 * * 1-5", "every": "", "timezone": "Asia/Shanghai", "overlap": "skip",
    "missed": "once", "enabled": "on",
}  # fmt: skip


@pytest.fixture
def log_in(published: Frontier) -> Callable[[str], Client]:
    return log_in_as


@pytest.fixture
def operator(log_in: Callable[[str], Client]) -> Client:
    return log_in("operator")


def post(client: Client, place: str = "add/", **fields: Any) -> str:
    answer = client.post(LIST + place, {**FORM, **fields}, follow=True)
    assert answer.status_code == 200
    return answer.content.decode()


def verbs() -> list[str]:
    return list(Action.objects.exclude(verb="login").order_by("pk").values_list("verb", flat=True))


def test_a_schedule_is_added_and_planned(operator: Client) -> None:
    post(operator)
    schedule = Schedule.objects.get()
    assert schedule.arguments == {"city": "Ulm"}
    assert schedule.user == User.objects.get()
    assert schedule.next_at is not None
    assert (schedule.next_at.hour, schedule.next_at.minute) == (22, 0)
    assert verbs() == ["add schedule"]


def test_what_is_wrong_is_said_at_its_field(operator: Client) -> None:
    for fields, field, words in (
        ({"cron": "0 6 * *"}, "cron", "has 4 fields"),
        ({"every": "5"}, "every", "not both"),
        ({"cron": "", "every": ""}, "cron", "give a cron expression"),
        ({"timezone": "Mars"}, "timezone", "there is no time zone"),
        ({"arguments": "{"}, "arguments", "valid JSON"),
        ({"arguments": "[1]"}, "arguments", "Enter a JSON object"),
        ({"arguments": "{}"}, "arguments", "needs the argument"),
        ({"arguments": '{"city": "Ulm", "pages": "many"}'}, "arguments", "a whole number"),
        ({"arguments": '{"city": "Ulm", "town": "Ulm"}'}, "arguments", "has no argument"),
        ({"priority": "101"}, "priority", "less than or equal to 100"),
    ):
        answer = operator.post(f"{LIST}add/", {**FORM, **fields})
        assert answer.context_data is not None
        errors = answer.context_data["adminform"].form.errors
        assert list(errors) == [field]
        assert words in errors[field][0]
        assert not Schedule.objects.exists()


def test_a_spider_that_no_node_has_is_warned_of(operator: Client) -> None:
    page = post(operator, spider="shopp", arguments='{"any": 1}')
    assert "did you mean &#x27;shop&#x27;" in page
    assert Schedule.objects.get().spider == "shopp"


def test_without_redis_a_schedule_can_be_changed(operator: Client) -> None:
    with redis_at("redis://127.0.0.1:1/0"):
        assert "cannot be reached" in post(operator)
        schedule = Schedule.objects.get()
        assert operator.get(f"{LIST}{schedule.pk}/change/").status_code == 200
        assert "cannot be reached" in act(operator, LIST, "run", schedule)
    assert not Run.objects.exists()


def test_only_a_new_timing_is_planned_anew(operator: Client) -> None:
    post(operator, cron="", every="3600")
    soon = timezone.now() + timedelta(seconds=5)
    Schedule.objects.update(next_at=soon)
    schedule = Schedule.objects.get()
    post(operator, f"{schedule.pk}/change/", cron="", every="3600", name="renamed")
    assert Schedule.objects.get().next_at == soon
    post(operator, f"{schedule.pk}/change/", cron="", every="7200", name="renamed")
    assert (Schedule.objects.get().next_at or soon) > soon


def test_run_enable_and_disable(operator: Client) -> None:
    post(operator)
    schedule = Schedule.objects.get()
    page = act(operator, LIST, "run", schedule)
    task = Task.objects.get()
    assert f'href="/admin/crawlservice/task/{task.pk}/change/"' in page
    assert (task.user, task.schedule) == (User.objects.get(), schedule)
    assert "was still running" in act(operator, LIST, "run", schedule)
    act(operator, LIST, "disable", schedule)
    schedule.refresh_from_db()
    assert (schedule.enabled, schedule.next_at) == (False, None)
    act(operator, LIST, "enable", schedule)
    schedule.refresh_from_db()
    assert schedule.enabled
    assert schedule.next_at is not None
    assert verbs()[1:] == ["run schedule", "run schedule", "disable schedule", "enable schedule"]
    assert Action.objects.filter(verb="run schedule").earliest("pk").task_id == task.pk


def test_save_and_run(operator: Client) -> None:
    post(operator)
    schedule = Schedule.objects.get()
    button = {"crawlservice_schedule_save_and_run": "1", "arguments": '{"city": "Bern"}'}
    post(operator, f"{schedule.pk}/change/", **button)
    assert Task.objects.get().arguments == {"city": "Bern"}


def test_its_page_says_why_it_cannot_start(operator: Client, log_in: Any) -> None:
    post(operator)
    schedule = Schedule.objects.get()
    place = f"{LIST}{schedule.pk}/change/"
    assert "It cannot start" not in operator.get(place).content.decode()
    Schedule.objects.update(problem="no <b>city</b>", problem_since=timezone.now())
    page = operator.get(place).content.decode()
    assert "It cannot start" in page
    assert "no &lt;b&gt;city&lt;/b&gt;" in page
    assert "Correct it below" in page
    assert "Correct it below" not in log_in("viewer").get(place).content.decode()


def test_pages_show_times_and_runs_at_a_fixed_cost(operator: Client) -> None:
    post(operator)
    schedule = Schedule.objects.get()
    act(operator, LIST, "run", schedule)
    act(operator, LIST, "run", schedule)
    page, before = counted(operator, LIST)
    assert "At 06:00, Monday through Friday (Asia/Shanghai)" in page
    assert "06:00:00 CST" in page
    change, change_before = counted(operator, f"{LIST}{schedule.pk}/change/")
    assert change.count("06:00:00 CST") == 5
    assert "was still running" in change
    assert ">running</span>" in change
    _, runs_before = counted(operator, "/admin/crawlservice/run/")
    for n in range(3):
        post(operator, name=f"{n}")
    act(operator, LIST, "run", *Schedule.objects.all())
    assert counted(operator, LIST)[1] == before
    assert counted(operator, f"{LIST}{schedule.pk}/change/")[1] == change_before
    assert counted(operator, "/admin/crawlservice/run/")[1] == runs_before


def test_what_is_typed_is_shown_in_words(operator: Client) -> None:
    def told(**given: str) -> str:
        return operator.get(f"{LIST}times/", given).content.decode()

    page = told(cron="30 2 * * *", every="", timezone="Europe/Berlin")
    assert "At 02:30" in page
    assert page.count("<li>") == 5
    assert "has 1 fields" in told(cron="<b>", every="", timezone="UTC")
    assert "<b>" not in told(cron="<b>", every="", timezone="<b>")
    assert "no time zone" in told(cron="0 0 * * *", timezone="x\0")
    assert told(every="9" * 50, timezone="UTC")


def test_words() -> None:
    assert in_words("", 7200) == "every 2 hours"
    assert in_words("", 86400) == "every day"
    assert in_words("", 90) == "every 90 seconds"
    assert in_words("0 0 LW * *", None) == "At 00:00, on the last weekday of the month"
    with override("zh-hans"):
        words = in_words("0 6 * 3 1-5", None)
    assert "06:00" in words
    assert "星期一" in words
    assert "三月" in words


def test_who_may_only_look_cannot_change(log_in: Callable[[str], Client]) -> None:
    schedule = Schedule.objects.create(name="x", spider="shop", cron="0 6 * * *")
    for role in ("viewer", "submitter"):
        client = log_in(role)
        assert client.get(LIST).status_code == 200
        assert client.get(f"{LIST}{schedule.pk}/change/").status_code == 200
        assert client.get("/admin/crawlservice/run/").status_code == 200
        for place in ("add/", f"{schedule.pk}/change/", f"{schedule.pk}/delete/"):
            assert client.post(LIST + place, {**FORM, "post": "yes"}).status_code == 403
        for action in ("run", "enable", "disable", "delete_selected"):
            act(client, LIST, action, schedule)
        button = {**FORM, "crawlservice_schedule_save_and_run": "1"}
        assert client.post(f"{LIST}{schedule.pk}/change/", button).status_code == 403
    assert Schedule.objects.get().enabled
    assert not Task.objects.exists()
    assert verbs() == []


def test_deleting_is_written_down(operator: Client) -> None:
    post(operator)
    schedule = Schedule.objects.get()
    Run.objects.create(schedule=schedule, due_at=timezone.now())  # goes with it
    act(operator, LIST, "delete_selected", schedule)
    operator.post(f"{LIST}{schedule.pk}/delete/", {"post": "yes"})
    assert not Schedule.objects.exists()
    assert not Run.objects.exists()
    assert verbs() == ["add schedule", "delete schedule"]


def test_the_command(published: Frontier) -> None:
    def told() -> str:
        out = io.StringIO()
        call_command("schedule", "list", stdout=out)
        return out.getvalue()

    assert "no schedules" in told()
    next_at = datetime(2026, 3, 29, 1, tzinfo=UTC)
    made = Schedule.objects.create(
        name="a\x1b[31m",
        spider="shop",
        cron="30 2 * * *",
        timezone="Europe/Berlin",
        next_at=next_at,
    )
    Schedule.objects.create(name="b", spider="shop", every=60, enabled=False)
    Schedule.objects.create(name="c", spider="shop", cron="* *")
    Run.objects.create(schedule=made, due_at=next_at, outcome="skipped")
    text = told()
    assert "2026-03-29 03:00:00 CEST" in text
    assert "every minute" in text
    task = submit("shop", {"city": "Ulm"})
    Task.objects.update(state="finished", outcome="failed")
    Run.objects.update(task=task)
    assert f"{task.pk} failed" in told()
    assert "disabled" in text
    assert "has 2 fields" in text
    assert "skipped" in text
    assert "\x1b" not in text
